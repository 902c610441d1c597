// Operands of attention as halves in shared memory, for kernels that multiply matrices of them: the queries of ROWS
// rows, and the keys or values of a tile of KEYS positions.
const uint KEYS = ATTENTION_MATRIX_KEYS;
const uint DIM_UNIT = K > N ? K : N; // powers of two
const uint DIM = (DIM_PADDED + DIM_UNIT - 1) / DIM_UNIT * DIM_UNIT;
const uint PAIR_STRIDE = DIM / 2 + 4; // a row and 16 bytes between it and the next, which spreads rows over the banks
#if CACHE_TYPE == CACHE_F32
const uint QUAD_DIMS = 4; // that 16 bytes hold
#elif CACHE_TYPE == CACHE_F16
const uint QUAD_DIMS = 8;
#else
const uint QUAD_DIMS = 16;
#endif
const uint QUADS = 8 * DIM_PADDED / QUAD_DIMS; // of eight positions, without their scales
const uint TOGETHER = QUAD_DIMS == 16 ? 2 : 4; // loads to wait for at once

shared f16vec2 queries[ROWS * PAIR_STRIDE];
shared f16vec2 tile[KEYS * PAIR_STRIDE];
shared float unscale[ROWS]; // what a query's dot products are still to be multiplied by

#define LANE (gl_SubgroupInvocationID % 8u)
// Which eight neighbouring lanes of the workgroup's this invocation is one of.
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

// Dimensions that neither keys nor values have.
void clear_padding() {
  const uint added = (DIM - DIM_PADDED) / 2;
  for (uint i = gl_LocalInvocationID.x; i < KEYS * added; i += gl_WorkGroupSize.x) {
    tile[i / added * PAIR_STRIDE + DIM_PADDED / 2 + i % added] = f16vec2(0.0);
  }
}

// As halves hold them. A value that only others may see must be a number: its weight is zero, and they are multiplied.
f16vec2 pair_of_halves(vec2 v) {
  return f16vec2(mix(vec2(-65504.0), min(v, vec2(65504.0)), greaterThanEqual(v, vec2(-65504.0))));
}

void keep(uint position, uint d, uvec4 quad, float scale) {
  const uint at = position * PAIR_STRIDE + d / 2u;
#if CACHE_TYPE == CACHE_F32
  [[unroll]] for (uint i = 0; i < 2; ++i) {
    tile[at + i] = pair_of_halves(vec2(uintBitsToFloat(quad[2 * i]), uintBitsToFloat(quad[2 * i + 1])));
  }
#elif CACHE_TYPE == CACHE_F16
  [[unroll]] for (uint i = 0; i < 4; ++i) tile[at + i] = pair_of_halves(unpackHalf2x16(quad[i]));
#else
  [[unroll]] for (uint i = 0; i < 4; ++i) {
    const vec4 bytes = scale * bytes_of(quad[i]);
    tile[at + 2 * i] = pair_of_halves(bytes.xy);
    tile[at + 2 * i + 1] = pair_of_halves(bytes.zw);
  }
#endif
}

// Where the eight positions that one is of begin.
uint eight_at(uint base, uint text, uint position) {
  return position_base(base, text, position) + position % p.capacity / 8u * TILE_QUADS;
}

float scale_of(uvec4 scales, uint position) { return unpackHalf2x16(scales[position % 8u / 2u])[position % 2u]; }

void load_key(uint base, uint text, uint begin, uint i) {
  const uint c = i % QUADS / 8u, t = i / QUADS * 8u + i % 8u;
  const uint at = eight_at(base, text, begin + t);
#if CACHE_TYPE == CACHE_Q8_0
  const uint part = at + c / 2u * KEY_STEP_QUADS;
  keep(t, c * QUAD_DIMS, keys[part + 1u + c % 2u * 8u + t % 8u], scale_of(keys[part], t));
#else
  keep(t, c * QUAD_DIMS, keys[at + i % QUADS], 1.0);
#endif
}

void load_value(uint base, uint text, uint begin, uint i) {
  const uint c = i % (QUADS / 8u), t = i / (QUADS / 8u);
  const uint at = eight_at(base, text, begin + t);
#if CACHE_TYPE == CACHE_Q8_0
  keep(t, c * QUAD_DIMS, values[at + KEY_STEPS + i % QUADS], scale_of(values[at + c / 2u], t));
#else
  keep(t, c * QUAD_DIMS, values[at + i % QUADS], 1.0);
#endif
}

void load_keys(uint base, uint text, uint begin) {
  [[dont_unroll]] for (uint i = gl_LocalInvocationID.x; i < KEYS / 8u * QUADS; i += TOGETHER * gl_WorkGroupSize.x) {
    [[unroll]] for (uint j = 0; j < TOGETHER; ++j) {
      const uint at = i + j * gl_WorkGroupSize.x;
      if (at < KEYS / 8u * QUADS) load_key(base, text, begin, at);
    }
  }
}

void load_values(uint base, uint text, uint begin) {
  [[dont_unroll]] for (uint i = gl_LocalInvocationID.x; i < KEYS / 8u * QUADS; i += TOGETHER * gl_WorkGroupSize.x) {
    [[unroll]] for (uint j = 0; j < TOGETHER; ++j) {
      const uint at = i + j * gl_WorkGroupSize.x;
      if (at < KEYS / 8u * QUADS) load_value(base, text, begin, at);
    }
  }
}
