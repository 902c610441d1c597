// Operands of attention as 16-bit floats in shared memory, for kernels that multiply f16 matrices: the queries of ROWS
// rows, and the keys or the values of a tile of KEYS positions.
const uint KEYS = ATTENTION_MATRIX_KEYS;
const uint DIM_UNIT = K > N ? K : N; // powers of two
const uint DIM = (DIM_PADDED + DIM_UNIT - 1) / DIM_UNIT * DIM_UNIT;
const uint QUAD_STRIDE = DIM / 8 + 1; // the 16 bytes between two rows spread them over the memory banks
#if CACHE_TYPE == CACHE_F32
const uint QUAD_DIMS = 4; // dimensions in 16 bytes
#elif CACHE_TYPE == CACHE_F16
const uint QUAD_DIMS = 8;
#else
const uint QUAD_DIMS = 16;
#endif
const uint QUADS = 8 * DIM_PADDED / QUAD_DIMS; // for eight positions, without their scales
const uint TOGETHER = QUAD_DIMS == 16 ? 2 : 4; // loads in flight at once

// Matrices are loaded from addresses that must be multiples of 16, so the memory is quads of eight numbers.
shared uvec4 queries[ROWS * QUAD_STRIDE];
shared uvec4 tile[KEYS * QUAD_STRIDE];
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
    for (uint quad = LANE; quad < DIM / 8; quad += 8u) {
      uvec4 words;
      [[unroll]] for (uint pair = 0; pair < 4; ++pair) {
        vec2 v = vec2(0.0);
        [[unroll]] for (uint j = 0; j < 2; ++j) {
          const uint d = quad * 8u + pair * 2u + j;
          if (d < HEAD_DIM) v[j] = q[at + d] * (1.0 / power);
        }
        words[pair] = packFloat2x16(f16vec2(v));
      }
      queries[m * QUAD_STRIDE + quad] = words;
    }
  }
}

// Zeros the dimensions that pad a row.
void clear_padding() {
  const uint added = (DIM - DIM_PADDED) / 8;
  for (uint i = gl_LocalInvocationID.x; i < KEYS * added; i += gl_WorkGroupSize.x) {
    tile[i / added * QUAD_STRIDE + DIM_PADDED / 8 + i % added] = uvec4(0u);
  }
}

// Clamps to the range of f16. A NaN must become a number too: rows that must not see the value multiply it by a weight of 0.
#if CACHE_TYPE == CACHE_F16
uvec4 finite_halves(uvec4 pairs) {
  // The exponent of an infinity or a NaN is all ones: one more carries into the sign's bit.
  const uvec4 all = ((pairs & 0x7c007c00u) + 0x04000400u >> 15u & 0x00010001u) * 0xffffu;
  return (pairs & ~all) | (all & (pairs & 0x80008000u | 0x7bff7bffu));
}
#else
uint f16_pair(vec2 v) {
  return packFloat2x16(f16vec2(mix(vec2(-65504.0), min(v, vec2(65504.0)), greaterThanEqual(v, vec2(-65504.0)))));
}
#endif

void keep(uint position, uint d, uvec4 quad, float scale) {
  const uint at = position * QUAD_STRIDE + d / 8u;
#if CACHE_TYPE == CACHE_F32
  const vec4 four = uintBitsToFloat(quad);
  const uvec2 words = uvec2(f16_pair(four.xy), f16_pair(four.zw));
  // Each half by names: by an index, drivers may write all of a quad.
  if (d % 8u == 0u) {
    tile[at].x = words.x;
    tile[at].y = words.y;
  } else {
    tile[at].z = words.x;
    tile[at].w = words.y;
  }
#elif CACHE_TYPE == CACHE_F16
  tile[at] = finite_halves(quad);
#else
  [[unroll]] for (uint i = 0; i < 2; ++i) {
    const vec4 low = scale * bytes_of(quad[2 * i]), high = scale * bytes_of(quad[2 * i + 1]);
    tile[at + i] = uvec4(f16_pair(low.xy), f16_pair(low.zw), f16_pair(high.xy), f16_pair(high.zw));
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
