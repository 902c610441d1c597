// How four neighbouring dimensions of a key or value get into the cache, by CACHE_TYPE. The layouts are described in
// runtime/kernel/cache_layout.h. `tile` counts the tiles of eight positions, `place` the positions in one.

// A float's bits, rounded to those that a half keeps, ties to even: which way packHalf2x16 rounds is up to the device,
// and towards zero would pull all keys and values one way. Too large becomes the largest, as infinities would spoil
// every score.
vec4 to_half(vec4 a) {
  uvec4 bits = floatBitsToUint(clamp(a, -65504.0, 65504.0));
  bits = (bits + 0xfffu + (bits >> 13 & 1u)) & ~0x1fffu;
  return uintBitsToFloat(bits);
}

#if CACHE_TYPE == 2
const uint CACHE_QUADS = (HEAD_DIM + 31) / 32 * 8; // of a head with its padding
const uint BLOCKS = CACHE_QUADS / 8;
const uint KEY_BLOCK_WORDS = 4 + 64; // the scales of eight positions, then their bytes
const uint TILE_WORDS = BLOCKS * KEY_BLOCK_WORDS;
WRITE_BUFFER(uint, keys, ROTARY_KEYS);
WRITE_BUFFER(uint, values, ROTARY_VALUES);
shared float largest[gl_WorkGroupSize.x];

// The largest of the 32 numbers that eight neighbouring invocations have.
float block_maximum(vec4 a) {
  const uint own = gl_LocalInvocationID.x;
  largest[own] = max(max(abs(a.x), abs(a.y)), max(abs(a.z), abs(a.w)));
  barrier();
  float m = 0.0;
  for (uint j = 0; j < 8u; ++j) m = max(m, largest[(own & ~7u) + j]);
  barrier(); // the next ones may overwrite them
  return m;
}

// Every invocation of the workgroup comes here, those with nothing to store too.
void store_in_cache(bool wanted, bool is_key, uint tile, uint place, uint quad, vec4 a) {
  const uint scale_half = packHalf2x16(to_half(vec4(block_maximum(a) / 127.0)).xx) & 0xffffu;
  if (!wanted) return;
  const float scale = unpackHalf2x16(scale_half).x;
  const ivec4 bytes = scale > 0.0 ? ivec4(clamp(roundEven(a / scale), -127.0, 127.0)) : ivec4(0);
  const uint word = uint(bytes.x & 255) | uint(bytes.y & 255) << 8 | uint(bytes.z & 255) << 16 | uint(bytes.w) << 24;
  // Two positions share a scale's dword, and another workgroup may be writing the other one's just now.
  const uint shift = place % 2u * 16u;
  const uint others = ~(0xffffu << shift);
  if (is_key) {
    const uint block = tile * TILE_WORDS + quad / 8u * KEY_BLOCK_WORDS;
    keys[block + 4u + (quad % 8u / 4u * 8u + place) * 4u + quad % 4u] = word;
    if (quad % 8u == 0u) {
      atomicAnd(keys[block + place / 2u], others);
      atomicOr(keys[block + place / 2u], scale_half << shift);
    }
  } else {
    const uint block = tile * TILE_WORDS + quad / 8u * 4u;
    values[tile * TILE_WORDS + BLOCKS * 4u + place * CACHE_QUADS + quad] = word;
    if (quad % 8u == 0u) {
      atomicAnd(values[block + place / 2u], others);
      atomicOr(values[block + place / 2u], scale_half << shift);
    }
  }
}
#else

#if CACHE_TYPE == 0
#define CACHE_QUAD vec4
const uint QUADS_PER_CHUNK = 1;
CACHE_QUAD to_cache(vec4 a) { return a; }
#else
#define CACHE_QUAD uvec2
const uint QUADS_PER_CHUNK = 2;
CACHE_QUAD to_cache(vec4 a) {
  a = to_half(a);
  return uvec2(packHalf2x16(a.xy), packHalf2x16(a.zw));
}
#endif
const uint CACHE_QUADS = (HEAD_DIM + 7) / 8 * 2; // of a head with its padding
WRITE_BUFFER(CACHE_QUAD, keys, ROTARY_KEYS);
WRITE_BUFFER(CACHE_QUAD, values, ROTARY_VALUES);

void store_in_cache(bool wanted, bool is_key, uint tile, uint place, uint quad, vec4 a) {
  if (!wanted) return;
  if (is_key) {
    const uint chunk = tile * (CACHE_QUADS / QUADS_PER_CHUNK) + quad / QUADS_PER_CHUNK;
    keys[(chunk * 8u + place) * QUADS_PER_CHUNK + quad % QUADS_PER_CHUNK] = to_cache(a);
  } else {
    values[(tile * 8u + place) * CACHE_QUADS + quad] = to_cache(a);
  }
}
#endif
