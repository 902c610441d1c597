#version 460
// A chunk of a head to a workgroup: the matrices of its rows with one another, and the delta rule's changes.
// variant: delta DELTA
// variant: scan
#extension GL_GOOGLE_include_directive : require
#include "common/types.glsl"
#include "recurrence/chunks.params.h"

layout(local_size_x = CHUNK_INVOCATIONS) in;
layout(constant_id = CHUNKS_ONE_RUN_ID) const uint ONE_RUN = 0;
layout(constant_id = CHUNKS_SIZE_ID) const uint SIZE = 128;
layout(constant_id = CHUNKS_LOG_A_ID) const uint LOG_A = 1;
layout(push_constant) uniform Push { ChunkParams p; };
READ_BUFFER(uvec4, step_block, CHUNKS_STEP);
READ_BUFFER(float, query, CHUNKS_QUERY);
READ_BUFFER(float, key, CHUNKS_KEY);
READ_BUFFER(float, value, CHUNKS_VALUE);
WRITE_BUFFER(float, matrices, CHUNKS_MATRICES);
#ifdef DELTA
READ_BUFFER(float, gates, CHUNKS_GATES);
WRITE_BUFFER(float, result, CHUNKS_RESULT);
WRITE_BUFFER(float, changes, CHUNKS_CHANGES);
#else
READ_BUFFER(float, steps, CHUNKS_GATES);
READ_BUFFER(float, weights, CHUNKS_WEIGHTS);
#define steps_stride gates_stride
#endif

#include "common/state.glsl"
#include "recurrence/chunks.glsl"
#ifdef DELTA
#include "recurrence/unit_length.glsl"
#else
#include "recurrence/scan_time.glsl"
#endif

const uint C = CHUNK_ROWS;
const uint TILE = 16; // columns of queries and keys at a time
shared float q_tile[C][TILE + 1], k_tile[C][TILE + 1];
shared float query_key[C][C + 1]; // [t][i]: of row t's query and row i's key, then with D and scales
#ifdef DELTA
shared float key_key[C][C + 1];
shared float rates[C];
#endif
shared float keeps[C];    // of each row; 1 after the last one
shared float q_scales[C]; // of a row's query and key
shared float k_scales[C];
shared float since_begin[C]; // D[t, -1]
shared float until_end[C];   // D[C - 1, i]

// An invocation has rows t and t + 1, and every eighth key.
void multiply(uint row, uint count, uint at) {
  const uint i = gl_LocalInvocationID.x, t = i / 8u * 2u, first = i % 8u;
  float q_k[2][4], k_k[2][4], squares = 0.0;
  [[unroll]] for (uint a = 0; a < 8; ++a) q_k[a / 4][a % 4] = k_k[a / 4][a % 4] = 0.0;
  for (uint n0 = 0; n0 < SIZE; n0 += TILE) {
    for (uint e = i; e < C * TILE; e += CHUNK_INVOCATIONS) {
      const uint r = e / TILE, n = n0 + e % TILE;
      const bool real = r < count && n < SIZE;
      q_tile[r][e % TILE] = real ? query[(row + r) * p.query_stride + at + n] : 0.0;
      k_tile[r][e % TILE] = real ? key[(row + r) * p.key_stride + at + n] : 0.0;
    }
    barrier();
    for (uint n = 0; n < TILE; ++n) {
      [[unroll]] for (uint b = 0; b < 4; ++b) {
        const float kn = k_tile[first + 8u * b][n];
        [[unroll]] for (uint a = 0; a < 2; ++a) {
          q_k[a][b] += q_tile[t + a][n] * kn;
#ifdef DELTA
          k_k[a][b] += k_tile[t + a][n] * kn;
#endif
        }
      }
      if (i < C) squares += q_tile[i][n] * q_tile[i][n];
    }
    barrier();
  }
  [[unroll]] for (uint a = 0; a < 2; ++a) {
    [[unroll]] for (uint b = 0; b < 4; ++b) {
      query_key[t + a][first + 8u * b] = q_k[a][b];
#ifdef DELTA
      key_key[t + a][first + 8u * b] = k_k[a][b];
#endif
    }
  }
  if (i < C) q_scales[i] = squares;
}

// An invocation for each row: its scales.
void find_scales(uint row, uint count, uint head) {
  const uint i = gl_LocalInvocationID.x;
  if (i >= C) return;
  keeps[i] = 1.0;
#ifdef DELTA
  const uint heads = p.columns / p.head_dim;
  rates[i] = 0.0;
  q_scales[i] = unit_scale(q_scales[i]) / sqrt(float(SIZE));
  k_scales[i] = unit_scale(key_key[i][i]);
  if (i < count) {
    keeps[i] = gates[(row + i) * p.gates_stride + head];
    rates[i] = gates[(row + i) * p.gates_stride + heads + head];
  }
#else
  q_scales[i] = 1.0;
  k_scales[i] = 0.0;
  if (i < count) {
    k_scales[i] = scan_time(row + i, head); // what x is multiplied by
    keeps[i] = exp(k_scales[i] * scan_rate(head));
  }
#endif
}

// An invocation for each column of the matrices.
void apply_scales() {
  const uint i = gl_LocalInvocationID.x;
  if (i >= C) return;
  float kept = 1.0;
  for (uint t = 0; t < C; ++t) {
    if (t > i) kept *= keeps[t];
    if (i == 0u) since_begin[t] = kept * keeps[0];
    const float scale = t < i ? 0.0 : kept * k_scales[i];
    query_key[t][i] *= scale * q_scales[t];
#ifdef DELTA
    key_key[t][i] *= t == i ? 0.0 : scale * k_scales[t] * rates[t];
#endif
  }
  until_end[i] = kept;
}

#ifdef DELTA
// A column of a triangular system to an invocation: what a chunk's changes have of a column of v, or of a row of S.
void solve(uint row, uint count, uint head, uint key_at) {
  const uint padded = (SIZE + 3u) & ~3u, heads = p.columns / p.head_dim;
  for (uint column = gl_LocalInvocationID.x; column < padded + p.head_dim; column += CHUNK_INVOCATIONS) {
    const bool of_state = column < padded;
    const uint n = of_state ? column : column - padded;
    float solved[C];
    [[unroll]] for (uint t = 0; t < C; ++t) {
      float own = 0.0;
      if (t < count) {
        if (!of_state) {
          own = rates[t] * value[(row + t) * p.value_stride + head * p.head_dim + n];
        } else if (n < SIZE) {
          own = rates[t] * since_begin[t] * k_scales[t] * key[(row + t) * p.key_stride + key_at + n];
        }
      }
      [[unroll]] for (uint i = 0; i < t; ++i) own -= key_key[t][i] * solved[i];
      solved[t] = own;
      if (t < count) {
        if (of_state) {
          changes[((row + t) * heads + head) * padded + n] = own;
        } else {
          result[(row + t) * p.out_stride + head * p.head_dim + n] = own;
        }
      }
    }
  }
}
#endif

void main() {
  const uint rows = step_block[0][ROWS_TOKENS];
  const uint row = chunk_begin(gl_WorkGroupID.x, rows);
  if (row >= rows) return;
  const uint count = chunk_rows(row, rows);
  const uint head = gl_WorkGroupID.y, heads = p.columns / p.head_dim;
  const uint key_at = head / p.key_share % p.key_heads * SIZE;
  multiply(row, count, key_at);
  barrier();
  find_scales(row, count, head);
  barrier();
  apply_scales();
  barrier();
  for (uint e = gl_LocalInvocationID.x; e < count * C; e += CHUNK_INVOCATIONS) {
    matrices[((row + e / C) * heads + head) * CHUNK_RECORD + e % C] = query_key[e / C][e % C];
  }
  const uint t = gl_LocalInvocationID.x;
  if (t < count) {
    const uint scales = ((row + t) * heads + head) * CHUNK_RECORD + C;
    matrices[scales] = since_begin[t] * q_scales[t];
    matrices[scales + 1u] = until_end[t] * k_scales[t];
    matrices[scales + 2u] = since_begin[count - 1u];
    matrices[scales + 3u] = 0.0;
  }
#ifdef DELTA
  solve(row, count, head, key_at);
#endif
}
