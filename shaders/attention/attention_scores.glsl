// For kernels where each invocation scores one position and the queries are in shared memory.
#define OWN gl_LocalInvocationID.x
const uint BLOCK = gl_WorkGroupSize.x;

shared float query[QUERIES * DIM_PADDED];

#if CACHE_TYPE == CACHE_F32
void decode(uvec4 quad, out float e[4]) {
  [[unroll]] for (uint i = 0; i < 4; ++i) e[i] = uintBitsToFloat(quad[i]);
}
#elif CACHE_TYPE == CACHE_F16
void decode(uvec4 quad, out float e[8]) {
  [[unroll]] for (uint i = 0; i < 4; ++i) {
    const vec2 pair = unpackHalf2x16(quad[i]);
    e[2 * i] = pair.x;
    e[2 * i + 1] = pair.y;
  }
}
#endif

void load_queries(uint rows) {
  for (uint i = OWN; i < QUERIES * DIM_PADDED; i += BLOCK) {
    const uint m = i / DIM_PADDED;
    const uint d = i % DIM_PADDED;
    const uint at = p.q_first + min(first_token() + m / HEADS, rows - 1u) * p.q_stride + query_head(m) * HEAD_DIM;
    query[i] = d < HEAD_DIM ? q[at + d] * score_scale() : 0.0;
  }
}

// Loads KEY_STEP dimensions of a key. `at`: where the step of its tile begins, in units of 16 bytes.
void load_key(uint at, uint position, out float key[KEY_STEP]) {
#if CACHE_TYPE == CACHE_Q8_0
  const float scale = unpackHalf2x16(keys[at][position % 8u / 2u])[position % 2u];
  [[unroll]] for (uint half_step = 0; half_step < 2; ++half_step) {
    const uvec4 quad = keys[at + 1u + half_step * 8u + position % 8u];
    [[unroll]] for (uint i = 0; i < 16; ++i) key[half_step * 16 + i] = scale * bytes_of(quad[i / 4])[i % 4];
  }
#else
  decode(keys[at + position % 8u], key);
#endif
}

// The dot products of the queries with the key at one position.
void score_position(uint base, uint position, out float score[QUERIES]) {
  [[unroll]] for (uint m = 0; m < QUERIES; ++m) score[m] = 0.0;
  const uint tile = base + position % p.capacity / 8u * TILE_QUADS;
  [[dont_unroll]] for (uint c = 0; c < KEY_STEPS; ++c) {
    float key[KEY_STEP];
    load_key(tile + c * KEY_STEP_QUADS, position, key);
    [[unroll]] for (uint m = 0; m < QUERIES; ++m) {
      [[unroll]] for (uint i = 0; i < KEY_STEP; ++i) {
        score[m] = fma(key[i], query[m * DIM_PADDED + c * KEY_STEP + i], score[m]);
      }
    }
  }
}
