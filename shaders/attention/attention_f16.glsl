// Operands of attention as 16-bit floats in shared memory, for kernels that multiply f16 matrices: the queries of ROWS
// rows, and the keys and the values of a tile of KEYS positions. They are loaded into registers while the device multiplies.
const uint KEYS = ATTENTION_MATRIX_KEYS;
const uint DIM_UNIT = K > N ? K : N; // powers of two
const uint DIM = (DIM_PADDED + DIM_UNIT - 1) / DIM_UNIT * DIM_UNIT;
const uint QUAD_STRIDE = DIM / 8 + 1; // the 16 bytes between two rows spread them over the memory banks
// Dimensions in 16 bytes of a type.
#define QUAD_DIMS(type) (type == CACHE_F32 ? 4 : type == CACHE_F16 ? 8 : type == CACHE_Q8_0 ? 16 : 32)
// Of keys, and of values: quads for eight positions, without their scales; loads of a tile, and of an invocation.
const uint KEY_QUADS = 8 * DIM_PADDED / QUAD_DIMS(KEY_TYPE), VALUE_QUADS = 8 * DIM_PADDED / QUAD_DIMS(VALUE_TYPE);
const uint KEY_TILE_LOADS = KEYS / 8 * KEY_QUADS, VALUE_TILE_LOADS = KEYS / 8 * VALUE_QUADS;
const uint KEY_LOADS = (KEY_TILE_LOADS + gl_WorkGroupSize.x - 1) / gl_WorkGroupSize.x;
const uint VALUE_LOADS = (VALUE_TILE_LOADS + gl_WorkGroupSize.x - 1) / gl_WorkGroupSize.x;

// Where each begins in `operands`. Held queries are in registers before the first keys come; values that do not lie apart
// overwrite the keys.
const uint KEYS_AT = HELD == 1u ? 0u : ROWS * QUAD_STRIDE;
const uint VALUES_AT = APART == 1u ? KEYS_AT + KEYS * QUAD_STRIDE : KEYS_AT;
const uint TILE_END = VALUES_AT + KEYS * QUAD_STRIDE;

// Matrices are loaded from addresses that must be multiples of 16, so the memory is quads of eight numbers.
// `AFTER_TILE` quads behind a tile are the kernel's own.
const uint TILE_QUADS = TILE_END + AFTER_TILE;
shared uvec4 operands[TILE_QUADS > ROWS * QUAD_STRIDE ? TILE_QUADS : ROWS * QUAD_STRIDE];
shared float unscale[ROWS]; // a query's dot products must be multiplied by this, because the query was scaled

// What an invocation has loaded ahead; it loads the rest when it stores them.
const uint KEY_LOADS_AHEAD = KEY_LOADS < AHEAD ? KEY_LOADS : AHEAD;
const uint VALUE_LOADS_AHEAD = VALUE_LOADS < AHEAD ? VALUE_LOADS : AHEAD;
struct Loaded {
  uvec4 quad;
#if KEY_TYPE >= CACHE_Q8_0 || VALUE_TYPE >= CACHE_Q8_0
  uint scales; // of two positions, or nothing
#endif
};
Loaded keys_ahead[KEY_LOADS_AHEAD], values_ahead[VALUE_LOADS_AHEAD];
#if KEY_TYPE >= CACHE_Q8_0
READ_BUFFER(uint, key_dwords, ATTENTION_KEYS);
#endif
#if VALUE_TYPE >= CACHE_Q8_0
READ_BUFFER(uint, value_dwords, ATTENTION_VALUES);
#endif
#if KEY_TYPE >= CACHE_Q8_0 || VALUE_TYPE >= CACHE_Q8_0
#define UNSCALED(quad) Loaded(quad, 0u)
#else
#define UNSCALED(quad) Loaded(quad)
#endif

#define LANE (gl_SubgroupInvocationID % 8u)
// The workgroup's invocations in groups of eight neighbouring lanes: the number of this invocation's group.
uint own_eight() { return gl_SubgroupID * (GROUP / 8u) + gl_SubgroupInvocationID / 8u; }

// Clamped to the range of f16; a NaN becomes a number too.
uint f16_pair(vec2 v) {
  return packFloat2x16(f16vec2(mix(vec2(-65504.0), min(v, vec2(65504.0)), greaterThanEqual(v, vec2(-65504.0)))));
}

// Eight lanes share a row.
void load_queries(uint rows) {
  [[dont_unroll]] for (uint m = own_eight(); m < ROWS; m += gl_WorkGroupSize.x / 8u) {
    const uint row = min(first_token() + m / HEADS, rows - 1u);
    const uint at = p.q_first + row * p.q_stride + query_head(m) * HEAD_DIM;
    float largest = 0.0;
    for (uint d = LANE; d < HEAD_DIM; d += 8u) largest = max(largest, abs(q[at + d]));
    [[unroll]] for (uint n = 1; n < 8; n *= 2) largest = max(largest, subgroupShuffleXor(largest, n));
    // 2^(e - 14) for a largest number of 2^e or just above.
    const int exponent = int(floatBitsToUint(largest) >> 23) - 14;
    const float power = uintBitsToFloat(uint(clamp(exponent, 1, 253)) << 23);
    if (LANE == 0u) unscale[m] = power;
    for (uint quad = LANE; quad < DIM / 8; quad += 8u) {
      uvec4 words;
      [[unroll]] for (uint pair = 0; pair < 4; ++pair) {
        vec2 v = vec2(0.0);
        [[unroll]] for (uint j = 0; j < 2; ++j) {
          const uint d = quad * 8u + pair * 2u + j;
          if (d < HEAD_DIM) v[j] = q[at + d] * (1.0 / power);
        }
        words[pair] = f16_pair(v);
      }
      operands[m * QUAD_STRIDE + quad] = words;
    }
  }
}

// Zeros the dimensions that pad a row of the tile.
void clear_padding() {
  const uint added = (DIM - DIM_PADDED) / 8, rows = (TILE_END - KEYS_AT) / QUAD_STRIDE;
  for (uint i = gl_LocalInvocationID.x; i < rows * added; i += gl_WorkGroupSize.x) {
    operands[KEYS_AT + i / added * QUAD_STRIDE + DIM_PADDED / 8 + i % added] = uvec4(0u);
  }
}

// The same of halves: rows that must not see a value multiply it by a weight of 0.
uvec4 finite_halves(uvec4 pairs) {
  // The exponent of an infinity or a NaN is all ones: one more carries into the sign's bit. There is hardly ever one.
  const uvec4 carried = (pairs & 0x7c007c00u) + 0x04000400u;
  if (((carried.x | carried.y | carried.z | carried.w) & 0x80008000u) == 0u) return pairs;
  const uvec4 all = (carried >> 15u & 0x00010001u) * 0xffffu;
  return (pairs & ~all) | (all & (pairs & 0x80008000u | 0x7bff7bffu));
}

// Put what was loaded of a position's dimensions, number `quad` of its 16 bytes, into the keys or values, which begin at
// `first`: of f32, f16, q8_0 and q4_0.
void keep_floats(uint first, uint position, uint number, uvec4 quad) {
  const uint at = first + position * QUAD_STRIDE + number / 2u;
  const vec4 four = uintBitsToFloat(quad);
  const uvec2 words = uvec2(f16_pair(four.xy), f16_pair(four.zw));
  // Each half by names: by an index, drivers may write all of a quad.
  if (number % 2u == 0u) {
    operands[at].x = words.x;
    operands[at].y = words.y;
  } else {
    operands[at].z = words.x;
    operands[at].w = words.y;
  }
}

void keep_halves(uint first, uint position, uint number, uvec4 quad) {
  operands[first + position * QUAD_STRIDE + number] = finite_halves(quad);
}

void keep_bytes(uint first, uint position, uint number, uvec4 quad, float scale) {
  const uint at = first + position * QUAD_STRIDE + number * 2u;
  [[unroll]] for (uint i = 0; i < 2; ++i) {
    const vec4 low = scale * bytes_of(quad[2 * i]), high = scale * bytes_of(quad[2 * i + 1]);
    operands[at + i] = uvec4(f16_pair(low.xy), f16_pair(low.zw), f16_pair(high.xy), f16_pair(high.zw));
  }
}

void keep_nibbles(uint first, uint position, uint number, uvec4 quad, float scale) {
  [[unroll]] for (uint i = 0; i < 2; ++i) keep_bytes(first, position, number * 2u + i, bytes_of_nibbles(quad, i), scale);
}

// Where a tile lies. No load depends on a branch, so that all are under way at once.
struct TilePlace {
  uint base;   // its source's, or its page's
  uint source;
  uint begin; // its first position
  uint first; // the place of its first eight positions in the ring
};

TilePlace place_of(uint base, uint source, uint begin, uint first) {
  return TilePlace(PAGED ? position_base(base, source, begin) : base, source, begin, first);
}

// The cache is a ring of whole tiles. `first`: the place of a tile's first eight positions, at most a tile past the end.
uint in_ring(uint first) { return first < p.capacity / 8u ? first : first - p.capacity / 8u; }

// The eight positions that position t of this tile is among lie next to those before them. Of beams each position may lie
// elsewhere.
uint eight_at(TilePlace tile, uint t) {
  const uint base = SHARED == 1u ? position_base(tile.base, tile.source, tile.begin + t) : tile.base;
  return base + tile.first + t / 8u;
}

float scale_of(uint scales, uint position) { return unpackHalf2x16(scales)[position % 2u]; }

// The position in the tile, and which 16 bytes of its dimensions, of an invocation's load j.
uint load_number(uint j, uint loads) { return min(j * gl_WorkGroupSize.x + gl_LocalInvocationID.x, loads - 1u); }
bool is_load(uint j, uint loads) { return j * gl_WorkGroupSize.x + gl_LocalInvocationID.x < loads; }
uvec2 key_of_load(uint i) { return uvec2(i / KEY_QUADS * 8u + i % 8u, i % KEY_QUADS / 8u); }
uvec2 value_of_load(uint i) {
  return VALUES_ARE_KEYS == 1u ? key_of_load(i) : uvec2(i / (VALUE_QUADS / 8u), i % (VALUE_QUADS / 8u));
}

Loaded load_key(TilePlace tile, uint j) {
  const uint i = load_number(j, KEY_TILE_LOADS);
  const uvec2 key = key_of_load(i);
#if KEY_TYPE >= CACHE_Q8_0
  const uint in_step = KEY_TYPE == CACHE_Q8_0 ? 2 : 1; // quads of a position
  const uint step_at = eight_at(tile, key.x) * KEY_TILE_QUADS + key.y / in_step * KEY_STEP_QUADS;
  return Loaded(keys[step_at + 1u + key.y % in_step * 8u + key.x % 8u], key_dwords[step_at * 4u + key.x % 8u / 2u]);
#else
  return UNSCALED(keys[SHARED == 1u ? eight_at(tile, key.x) * KEY_QUADS + i % KEY_QUADS : (tile.base + tile.first) * KEY_QUADS + i]);
#endif
}

Loaded load_value(TilePlace tile, uint j) {
  const uint i = load_number(j, VALUE_TILE_LOADS);
  const uvec2 value = value_of_load(i);
#if VALUE_TYPE >= CACHE_Q8_0
  if (VALUES_ARE_KEYS == 1u) return load_key(tile, j);
  const uint at = eight_at(tile, value.x) * VALUE_TILE_QUADS;
  const uint step = value.y / (VALUE_TYPE == CACHE_Q8_0 ? 2 : 1);
  return Loaded(values[at + VALUE_SCALE_QUADS + i % VALUE_QUADS], value_dwords[(at + step) * 4u + value.x % 8u / 2u]);
#else
  return UNSCALED(
    values[SHARED == 1u ? eight_at(tile, value.x) * VALUE_QUADS + i % VALUE_QUADS : (tile.base + tile.first) * VALUE_QUADS + i]);
#endif
}

void keep_key(uint j, Loaded loaded) {
  if (!is_load(j, KEY_TILE_LOADS)) return;
  const uvec2 place = key_of_load(load_number(j, KEY_TILE_LOADS));
#if KEY_TYPE == CACHE_Q8_0
  keep_bytes(KEYS_AT, place.x, place.y, loaded.quad, scale_of(loaded.scales, place.x));
#elif KEY_TYPE == CACHE_Q4_0
  keep_nibbles(KEYS_AT, place.x, place.y, loaded.quad, scale_of(loaded.scales, place.x));
#elif KEY_TYPE == CACHE_F16
  keep_halves(KEYS_AT, place.x, place.y, loaded.quad);
#else
  keep_floats(KEYS_AT, place.x, place.y, loaded.quad);
#endif
}
void keep_value(uint j, Loaded loaded) {
  if (!is_load(j, VALUE_TILE_LOADS)) return;
  const uvec2 place = value_of_load(load_number(j, VALUE_TILE_LOADS));
#if VALUE_TYPE == CACHE_Q8_0
  keep_bytes(VALUES_AT, place.x, place.y, loaded.quad, scale_of(loaded.scales, place.x));
#elif VALUE_TYPE == CACHE_Q4_0
  keep_nibbles(VALUES_AT, place.x, place.y, loaded.quad, scale_of(loaded.scales, place.x));
#elif VALUE_TYPE == CACHE_F16
  keep_halves(VALUES_AT, place.x, place.y, loaded.quad);
#else
  keep_floats(VALUES_AT, place.x, place.y, loaded.quad);
#endif
}

void load_keys(TilePlace tile) {
  [[unroll]] for (uint j = 0; j < KEY_LOADS_AHEAD; ++j) keys_ahead[j] = load_key(tile, j);
}
void load_values(TilePlace tile) {
  [[unroll]] for (uint j = 0; j < VALUE_LOADS_AHEAD; ++j) values_ahead[j] = load_value(tile, j);
}
void store_keys(TilePlace tile) {
  [[unroll]] for (uint j = 0; j < KEY_LOADS_AHEAD; ++j) keep_key(j, keys_ahead[j]);
  [[dont_unroll]] for (uint j = KEY_LOADS_AHEAD; j < KEY_LOADS; ++j) keep_key(j, load_key(tile, j));
}
void store_values(TilePlace tile) {
  [[unroll]] for (uint j = 0; j < VALUE_LOADS_AHEAD; ++j) keep_value(j, values_ahead[j]);
  [[dont_unroll]] for (uint j = VALUE_LOADS_AHEAD; j < VALUE_LOADS; ++j) keep_value(j, load_value(tile, j));
}
