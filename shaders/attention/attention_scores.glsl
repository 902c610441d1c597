// For kernels where each invocation scores one position and the queries are in shared memory. The including file may define
// STRAIGHT: 1 where there are registers for loops without a branch in them, if the numbers divide evenly.
#ifndef STRAIGHT
#define STRAIGHT 0u
#endif
#define OWN gl_LocalInvocationID.x
const uint BLOCK = gl_WorkGroupSize.x;

shared float query[QUERIES * DIM_PADDED];

void decode(uvec4 quad, out float e[4]) { // of f32
  [[unroll]] for (uint i = 0; i < 4; ++i) e[i] = uintBitsToFloat(quad[i]);
}
void decode(uvec4 quad, out float e[8]) { // of f16
  [[unroll]] for (uint i = 0; i < 4; ++i) {
    const vec2 pair = unpackHalf2x16(quad[i]);
    e[2 * i] = pair.x;
    e[2 * i + 1] = pair.y;
  }
}

#ifndef ROTARY
void load_queries(uint rows) {
  for (uint i = OWN; i < QUERIES * DIM_PADDED; i += BLOCK) {
    const uint m = i / DIM_PADDED;
    const uint d = i % DIM_PADDED;
    const uint at = p.q_first + min(first_token() + m / HEADS, rows - 1u) * p.q_stride + query_head(m) * HEAD_DIM;
    query[i] = d < HEAD_DIM ? q[at + d] * score_scale() : 0.0;
  }
}
#endif

layout(constant_id = ATTENTION_AHEAD_ID) const uint AHEAD = 4;

// What is loaded for KEY_STEP dimensions of a key: all loads of some steps are under way before the first is used.
#if KEY_TYPE >= CACHE_Q8_0
const uint KEY_LOADS = KEY_TYPE == CACHE_Q8_0 ? 3 : 2;
const uint MOST_STEPS_AHEAD = AHEAD / 2;
#else
const uint KEY_LOADS = 1;
const uint MOST_STEPS_AHEAD = AHEAD;
#endif
const uint STEPS_AHEAD = KEY_STEPS < MOST_STEPS_AHEAD ? KEY_STEPS : MOST_STEPS_AHEAD;
const bool EVEN_STEPS = (STRAIGHT == 1u ? KEY_STEPS % STEPS_AHEAD : 1u) == 0u;

// `at`: where the step of its tile begins, in units of 16 bytes.
void load_key(uint at, uint position, out uvec4 quads[KEY_LOADS]) {
#if KEY_TYPE >= CACHE_Q8_0
  quads[0] = keys[at];
  [[unroll]] for (uint half_step = 0; half_step < KEY_LOADS - 1; ++half_step) {
    quads[1 + half_step] = keys[at + 1u + half_step * 8u + position % 8u];
  }
#else
  quads[0] = keys[at + position % 8u];
#endif
}

void decode_key(uvec4 quads[KEY_LOADS], uint position, out float key[KEY_STEP]) {
#if KEY_TYPE >= CACHE_Q8_0
  const float scale = unpackHalf2x16(quads[0][position % 8u / 2u])[position % 2u];
#if KEY_TYPE == CACHE_Q8_0
  const uvec4 bytes[2] = {quads[1], quads[2]};
#else
  const uvec4 bytes[2] = {bytes_of_nibbles(quads[1], 0u), bytes_of_nibbles(quads[1], 1u)};
#endif
  [[unroll]] for (uint i = 0; i < 32; ++i) key[i] = scale * bytes_of(bytes[i / 16][i % 16 / 4])[i % 4];
#else
  decode(quads[0], key);
#endif
}

// The dot products of the queries with the key at one position.
void score_position(uint base, uint position, out float score[QUERIES]) {
  [[unroll]] for (uint m = 0; m < QUERIES; ++m) score[m] = 0.0;
  const uint tile = (base + position % p.capacity / 8u) * KEY_TILE_QUADS;
  [[dont_unroll]] for (uint first = 0; first < KEY_STEPS; first += STEPS_AHEAD) {
    uvec4 loaded[STEPS_AHEAD][KEY_LOADS];
    [[unroll]] for (uint j = 0; j < STEPS_AHEAD; ++j) {
      const uint step = EVEN_STEPS ? first + j : min(first + j, KEY_STEPS - 1u);
      load_key(tile + step * KEY_STEP_QUADS, position, loaded[j]);
    }
    [[unroll]] for (uint j = 0; j < STEPS_AHEAD; ++j) {
      const uint c = first + j;
      if (!EVEN_STEPS && c >= KEY_STEPS) break;
      float key[KEY_STEP];
      decode_key(loaded[j], position, key);
      [[unroll]] for (uint m = 0; m < QUERIES; ++m) {
        [[unroll]] for (uint i = 0; i < KEY_STEP; ++i) {
          score[m] = fma(key[i], query[m * DIM_PADDED + c * KEY_STEP + i], score[m]);
        }
      }
    }
  }
}
