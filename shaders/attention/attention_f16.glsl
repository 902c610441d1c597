// Operands of attention as 16-bit floats in shared memory, for kernels that multiply f16 matrices: the queries of ROWS
// rows, and the keys or the values of a tile of KEYS positions.
const uint KEYS = ATTENTION_MATRIX_KEYS;
const uint DIM_UNIT = K > N ? K : N; // powers of two
const uint DIM = (DIM_PADDED + DIM_UNIT - 1) / DIM_UNIT * DIM_UNIT;
const uint PAIR_STRIDE = DIM / 2 + 4; // the 16 bytes between two rows spread them over the memory banks
#if CACHE_TYPE == CACHE_F32
const uint QUAD_DIMS = 4; // dimensions in 16 bytes
#elif CACHE_TYPE == CACHE_F16
const uint QUAD_DIMS = 8;
#else
const uint QUAD_DIMS = 16;
#endif
const uint QUADS = 8 * DIM_PADDED / QUAD_DIMS; // for eight positions, without their scales
const uint TOGETHER = QUAD_DIMS == 16 ? 2 : 4; // loads in flight at once

shared f16vec2 queries[ROWS * PAIR_STRIDE];
shared f16vec2 tile[KEYS * PAIR_STRIDE];
shared float unscale[ROWS]; // a query's dot products must be multiplied by this, because the query was scaled

#define LANE (gl_SubgroupInvocationID % 8u)
// The workgroup's invocations in groups of eight neighbouring lanes: the number of this invocation's group.
uint own_eight() { return gl_SubgroupID * (GROUP / 8u) + gl_SubgroupInvocationID / 8u; }

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
    for (uint pair = LANE; pair < DIM / 2; pair += 8u) {
      vec2 v = vec2(0.0);
      [[unroll]] for (uint j = 0; j < 2; ++j) {
        if (pair * 2u + j < HEAD_DIM) v[j] = q[at + pair * 2u + j] * (1.0 / power);
      }
      queries[m * PAIR_STRIDE + pair] = f16vec2(v);
    }
  }
}

// Zeros the dimensions that pad a row.
void clear_padding() {
  const uint added = (DIM - DIM_PADDED) / 2;
  for (uint i = gl_LocalInvocationID.x; i < KEYS * added; i += gl_WorkGroupSize.x) {
    tile[i / added * PAIR_STRIDE + DIM_PADDED / 2 + i % added] = f16vec2(0.0);
  }
}

// Clamps to the range of f16. A NaN must become a number too: rows that must not see the value multiply it by a weight of 0.
f16vec2 f16_pair(vec2 v) {
  return f16vec2(mix(vec2(-65504.0), min(v, vec2(65504.0)), greaterThanEqual(v, vec2(-65504.0))));
}

void keep(uint position, uint d, uvec4 quad, float scale) {
  const uint at = position * PAIR_STRIDE + d / 2u;
#if CACHE_TYPE == CACHE_F32
  [[unroll]] for (uint i = 0; i < 2; ++i) {
    tile[at + i] = f16_pair(vec2(uintBitsToFloat(quad[2 * i]), uintBitsToFloat(quad[2 * i + 1])));
  }
#elif CACHE_TYPE == CACHE_F16
  [[unroll]] for (uint i = 0; i < 4; ++i) tile[at + i] = f16_pair(unpackHalf2x16(quad[i]));
#else
  [[unroll]] for (uint i = 0; i < 4; ++i) {
    const vec4 bytes = scale * bytes_of(quad[i]);
    tile[at + 2 * i] = f16_pair(bytes.xy);
    tile[at + 2 * i + 1] = f16_pair(bytes.zw);
  }
#endif
}

// Where the tile of eight positions that holds `position` begins.
uint eight_at(uint base, uint source, uint position) {
  return position_base(base, source, position) + position % p.capacity / 8u * TILE_QUADS;
}

float scale_of(uvec4 scales, uint position) { return unpackHalf2x16(scales[position % 8u / 2u])[position % 2u]; }

void load_key(uint base, uint source, uint begin, uint i) {
  const uint c = i % QUADS / 8u, t = i / QUADS * 8u + i % 8u;
  const uint at = eight_at(base, source, begin + t);
#if CACHE_TYPE == CACHE_Q8_0
  const uint step_at = at + c / 2u * KEY_STEP_QUADS;
  keep(t, c * QUAD_DIMS, keys[step_at + 1u + c % 2u * 8u + t % 8u], scale_of(keys[step_at], t));
#else
  keep(t, c * QUAD_DIMS, keys[at + i % QUADS], 1.0);
#endif
}

void load_value(uint base, uint source, uint begin, uint i) {
  if (VALUES_ARE_KEYS == 1u) {
    load_key(base, source, begin, i);
    return;
  }
  const uint c = i % (QUADS / 8u), t = i / (QUADS / 8u);
  const uint at = eight_at(base, source, begin + t);
#if CACHE_TYPE == CACHE_Q8_0
  keep(t, c * QUAD_DIMS, values[at + KEY_STEPS + i % QUADS], scale_of(values[at + c / 2u], t));
#else
  keep(t, c * QUAD_DIMS, values[at + i % QUADS], 1.0);
#endif
}

void load_keys(uint base, uint source, uint begin) {
  [[dont_unroll]] for (uint i = gl_LocalInvocationID.x; i < KEYS / 8u * QUADS; i += TOGETHER * gl_WorkGroupSize.x) {
    [[unroll]] for (uint j = 0; j < TOGETHER; ++j) {
      const uint at = i + j * gl_WorkGroupSize.x;
      if (at < KEYS / 8u * QUADS) load_key(base, source, begin, at);
    }
  }
}

void load_values(uint base, uint source, uint begin) {
  [[dont_unroll]] for (uint i = gl_LocalInvocationID.x; i < KEYS / 8u * QUADS; i += TOGETHER * gl_WorkGroupSize.x) {
    [[unroll]] for (uint j = 0; j < TOGETHER; ++j) {
      const uint at = i + j * gl_WorkGroupSize.x;
      if (at < KEYS / 8u * QUADS) load_value(base, source, begin, at);
    }
  }
}
