#version 460
// A workgroup takes one run of rows, the rows of a step that follow one another in a sequence, one position after the
// other. What it adds up does not depend on where a run is cut, nor on where an input lies in its cache.
// variant: f32 CACHE_TYPE=0
// variant: f16 CACHE_TYPE=1
#extension GL_GOOGLE_include_directive : require
#include "common/half.glsl"
#include "common/types.glsl"
#include "recurrence/attentive_gru.params.h"

layout(local_size_x_id = 0) in;
layout(constant_id = ATTENTIVE_GRU_HIDDEN_ID) const uint HIDDEN = 1;
layout(constant_id = ATTENTIVE_GRU_INDIRECT_ID) const uint INDIRECT = 0;
layout(constant_id = ATTENTIVE_GRU_KEEP_ID) const uint KEEP = 0;
layout(push_constant) uniform Push { AttentiveGruParams p; };
READ_BUFFER(uvec4, step_block, ATTENTIVE_GRU_STEP);
READ_BUFFER(uint, step_words, ATTENTIVE_GRU_STEP);
READ_BUFFER(float, x, ATTENTIVE_GRU_X);
READ_BUFFER(uint, keys, ATTENTIVE_GRU_KEYS);
READ_BUFFER(uint, values, ATTENTIVE_GRU_VALUES);
WRITE_BUFFER(uint, states, ATTENTIVE_GRU_STATES);
READ_BUFFER(float, weights, ATTENTIVE_GRU_MATRICES);
WRITE_BUFFER(float, result, ATTENTIVE_GRU_RESULT);
WRITE_BUFFER(float, shares, ATTENTIVE_GRU_SHARES);

const uint STATE = (HIDDEN + 31u) / 32u * 32u;
const uint DIM_PADDED = (HIDDEN + 7u) / 8u * 8u;
const float LEAST_SCORE = -3e38;
shared float state[STATE];
shared float query[STATE];
shared float read[2 * HIDDEN]; // the embedding, then the context
shared float scores[gl_WorkGroupSize.x];

#include "common/state.glsl"
#include "recurrence/gru_cell.glsl"
DOT(read_product, read)

uint me = gl_LocalInvocationID.x;
const uint WIDTH = gl_WorkGroupSize.x;

// Where a column of a key or a value lies, in elements. Keys lie in tiles of eight positions.
uint key_at(uint sequence, uint capacity, uint position, uint column) {
  const uint unit = CACHE_TYPE == 0 ? 4u : 8u;
  const uint tile = sequence * (capacity / 8u) + position / 8u;
  return tile * 8u * DIM_PADDED + (column / unit * 8u + position % 8u) * unit + column % unit;
}
#if CACHE_TYPE == 0
#define ELEMENT(buffer, at) uintBitsToFloat(buffer[at])
#else
#define ELEMENT(buffer, at) unpackHalf2x16(buffer[(at) / 2u])[(at) % 2u]
#endif
float key(uint position, uint column) {
  const uint at = key_at(0u, p.memory_capacity, position, column);
  return ELEMENT(keys, at);
}
float value(uint position, uint column) {
  const uint at = position * DIM_PADDED + column;
  return ELEMENT(values, at);
}

// As the cache will give it again.
float as_kept(float a) {
#if CACHE_TYPE == 0
  return a;
#else
  return round_to_half(a); // a state lies between -1 and 1
#endif
}

// Columns c and, where two share a word, c + 1.
void keep(uint sequence, uint position, uint column, float a, float b) {
  const uint at = key_at(sequence, p.capacity, position, column);
#if CACHE_TYPE == 0
  states[at] = floatBitsToUint(a);
#else
  states[at / 2u] = packHalf2x16(vec2(a, b));
#endif
}

void begin_state(uvec4 token, uvec2 range) {
  for (uint i = me; i < STATE; i += WIDTH) state[i] = 0.0;
  barrier();
  if (token.y != token.w) {
    uint source = token.z;
    if (INDIRECT != 0u) {
      const uint at = token.z * p.indirection_positions + min(token.y - 1u, p.indirection_positions - 1u);
      source = min(step_words[p.cache_indirection * 4u + at], p.sequences - 1u);
    }
    for (uint i = me; i < HIDDEN; i += WIDTH) {
      const uint at = key_at(source, p.capacity, token.y - 1u, i);
      state[i] = ELEMENT(states, at);
    }
    barrier();
    return;
  }
  for (uint i = me; i < HIDDEN; i += WIDTH) {
    query[i] = range.x < range.y ? value(i < HIDDEN / 2u ? range.y - 1u : range.x, i) : 0.0;
  }
  barrier();
  for (uint i = me; i < HIDDEN; i += WIDTH) state[i] = query[i];
  barrier();
  for (uint i = me; i < HIDDEN; i += WIDTH) {
    query[i] = finite_tanh(state_product(p.bridge, i, HIDDEN) + weights[p.bridge_bias + i]);
  }
  barrier();
  for (uint i = me; i < HIDDEN; i += WIDTH) state[i] = query[i];
  barrier();
}

float score(uint position) {
  float sum = 0.0;
  uint c = 0u;
  [[dont_unroll]] for (; c + 4u <= HIDDEN; c += 4u) {
    [[unroll]] for (uint i = 0u; i < 4u; ++i) {
      sum += weights[p.score + c + i] * finite_tanh(query[c + i] + key(position, c + i));
    }
  }
  for (; c < HIDDEN; ++c) sum += weights[p.score + c] * finite_tanh(query[c] + key(position, c));
  return clamp(sum, -1e30, 1e30);
}

// Adds up the context, block after block of positions, under the largest score so far. Returns that and the sum of the
// weights.
vec2 attend(uvec2 range) {
  for (uint c = me; c < HIDDEN; c += WIDTH) read[HIDDEN + c] = 0.0;
  float largest = LEAST_SCORE, total = 0.0;
  for (uint first = range.x; first < range.y; first += WIDTH) {
    const uint count = min(WIDTH, range.y - first);
    if (me < count) scores[me] = score(first + me);
    barrier();
    float highest = largest;
    for (uint n = 0u; n < count; ++n) highest = max(highest, scores[n]);
    barrier();
    if (me < count) scores[me] = exp(scores[me] - highest);
    barrier();
    const float shrink = exp(largest - highest);
    total *= shrink;
    for (uint n = 0u; n < count; ++n) total += scores[n];
    for (uint c = me; c < HIDDEN; c += WIDTH) {
      float sum = read[HIDDEN + c] * shrink;
      for (uint n = 0u; n < count; ++n) sum = fma(scores[n], value(first + n, c), sum);
      read[HIDDEN + c] = sum;
    }
    largest = highest;
    barrier();
  }
  for (uint c = me; c < HIDDEN; c += WIDTH) read[HIDDEN + c] = total > 0.0 ? read[HIDDEN + c] / total : 0.0;
  return vec2(largest, total);
}

void keep_shares(uint row, uvec2 range, vec2 found) {
  for (uint c = me; c < (p.shares + 31u) / 32u * 32u; c += WIDTH) {
    const bool seen = c < p.shares && range.x + c < range.y;
    shares[row * p.shares_stride + c] = seen ? exp(score(range.x + c) - found.x) / found.y : 0.0;
  }
}

void store(uint row, uvec4 token) {
  const uint columns = 3u * HIDDEN;
  for (uint i = me; i < (columns + 31u) / 32u * 32u; i += WIDTH) {
    result[row * p.out_stride + i] = i < HIDDEN ? state[i] : i < columns ? read[i < 2u * HIDDEN ? i : i - 2u * HIDDEN] : 0.0;
  }
  const uint step = CACHE_TYPE == 0 ? 1u : 2u;
  for (uint c = me * step; c < HIDDEN; c += WIDTH * step) {
    keep(token.z, token.y, c, state[c], c + 1u < HIDDEN ? state[c + 1u] : 0.0);
  }
}

void main() {
  uint row = gl_WorkGroupID.x;
  const uint rows = step_block[0][ROWS_TOKENS];
  if (row >= rows || goes_on(row)) return;
  uint length = 1u;
  while (row + length < rows && length < p.first_step + p.steps && goes_on(row + length)) ++length;
  if (length <= p.first_step) return;
  const uint end = row + min(length, p.first_step + p.steps);
  row += p.first_step;
  uvec4 token = step_row(row);
  uvec2 range = step_block[p.sequence_quads + token.z].xy;
  range.y = min(range.y, p.memory_capacity);
  if (p.first_step == 0u) {
    begin_state(token, range);
  } else { // what the dispatch before has kept, and no cache indirection shows yet
    for (uint i = me; i < STATE; i += WIDTH) state[i] = i < HIDDEN ? result[(row - 1u) * p.out_stride + i] : 0.0;
    barrier();
  }
  for (; row < end; ++row) {
    token = step_row(row);
    for (uint i = me; i < HIDDEN; i += WIDTH) {
      read[i] = x[row * p.x_stride + i];
      query[i] = state_product(p.query, i, HIDDEN);
    }
    barrier();
    const vec2 found = attend(range);
    if (KEEP != 0u) keep_shares(row, range, found);
    barrier();
    float next[MOST_COLUMNS];
    for (uint k = 0u; k < COLUMNS; ++k) {
      const uint i = me + k * WIDTH;
      if (i >= HIDDEN) break;
      vec3 gates;
      for (uint j = 0u; j < 3u; ++j) {
        gates[j] = read_product(p.cell_input, j * HIDDEN + i, 2u * HIDDEN) + weights[p.cell_input_bias + j * HIDDEN + i];
      }
      next[k] = as_kept(gru_cell(gates, recurrent(p.cell_state, p.cell_state_bias, i), state[i]));
    }
    barrier();
    for (uint k = 0u; k < COLUMNS; ++k) {
      const uint i = me + k * WIDTH;
      if (i >= HIDDEN) break;
      state[i] = next[k];
    }
    barrier();
    store(row, token);
    barrier();
  }
}
