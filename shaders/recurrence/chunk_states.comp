#version 460
// COLUMNS columns of a run's head to a workgroup, which goes from chunk to chunk with their state in shared memory.
// variant: delta DELTA
// variant: scan
#extension GL_GOOGLE_include_directive : require
#include "common/types.glsl"
#include "recurrence/chunks.params.h"

layout(local_size_x = CHUNK_INVOCATIONS) in;
layout(constant_id = CHUNKS_ONE_RUN_ID) const uint ONE_RUN = 0;
layout(constant_id = CHUNKS_SIZE_ID) const uint SIZE = 128;
layout(constant_id = CHUNKS_QUADS_ID) const uint QUADS = 0;
layout(constant_id = CHUNKS_COLUMNS_ID) const uint COLUMNS = 16;
layout(push_constant) uniform Push { ChunkParams p; };
READ_BUFFER(uvec4, step_block, CHUNKS_STEP);
READ_BUFFER(float, query, CHUNKS_QUERY);
READ_BUFFER(vec4, query_quads, CHUNKS_QUERY);
READ_BUFFER(float, key, CHUNKS_KEY);
READ_BUFFER(vec4, key_quads, CHUNKS_KEY);
READ_BUFFER(vec4, matrices, CHUNKS_MATRICES);
#ifdef DELTA
READ_BUFFER(vec4, changes, CHUNKS_CHANGES);
#else
READ_BUFFER(float, value, CHUNKS_VALUE);
READ_BUFFER(float, weights, CHUNKS_WEIGHTS);
#endif
WRITE_BUFFER(float, state, CHUNKS_STATE);
WRITE_BUFFER(float, result, CHUNKS_RESULT);

#include "common/state.glsl"
#include "recurrence/chunks.glsl"
#include "recurrence/padding.glsl"

const uint C = CHUNK_ROWS;
const uint RECORD_QUADS = CHUNK_RECORD / 4u;
const uint PADDED = (SIZE + 3u) & ~3u;
const uint GROUPS = CHUNK_INVOCATIONS / COLUMNS; // of invocations with the same columns
const uint OWN_ROWS = C / GROUPS;                // of a chunk, an invocation's
shared float s[PADDED][COLUMNS];
shared float u[C][COLUMNS]; // the rows' changes
shared float k_scale[C];

// Of a row's head.
vec4 scales_of(uint at) {
  return matrices[at * RECORD_QUADS + C / 4u];
}

#define LOAD_QUAD(name, at, n) \
  (QUADS != 0u ? name##_quads[((at) + (n)) >> 2] \
               : vec4(name[(at) + (n)], (n) + 1u < SIZE ? name[(at) + (n) + 1u] : 0.0, \
                      (n) + 2u < SIZE ? name[(at) + (n) + 2u] : 0.0, (n) + 3u < SIZE ? name[(at) + (n) + 3u] : 0.0))

void load_state(uvec4 token, uint channel, bool real) {
  const uint column = gl_LocalInvocationID.x % COLUMNS, group = gl_LocalInvocationID.x / COLUMNS;
  const uint from = state_at(token.z, token.y, p.checkpoints, p.drafts, SIZE * p.columns) + channel;
  const bool known = real && token.y != token.w;
  for (uint n = group; n < PADDED; n += GROUPS) s[n][column] = known && n < SIZE ? state[from + n * p.columns] : 0.0;
}

void store_state(uint sequence, uint position, uint channel) {
  const uint column = gl_LocalInvocationID.x % COLUMNS, group = gl_LocalInvocationID.x / COLUMNS;
  const uint to = state_at(sequence, position, p.checkpoints, p.drafts, SIZE * p.columns) + channel;
  for (uint n = group; n < SIZE; n += GROUPS) state[to + n * p.columns] = s[n][column];
}

// What an invocation's rows read of the state before the chunk: `seen` by their queries, `known` by their changes.
void read_state(uint row, uint count, uint head, uint key_at, out float seen[OWN_ROWS], out float known[OWN_ROWS]) {
  const uint column = gl_LocalInvocationID.x % COLUMNS, group = gl_LocalInvocationID.x / COLUMNS;
  const uint heads = p.columns / p.head_dim;
  [[unroll]] for (uint j = 0; j < OWN_ROWS; ++j) seen[j] = known[j] = 0.0;
  [[dont_unroll]] for (uint n = 0; n < PADDED; n += 4u) { // all of its loads at once are more than registers hold
    const vec4 own = vec4(s[n][column], s[n + 1u][column], s[n + 2u][column], s[n + 3u][column]);
    [[unroll]] for (uint j = 0; j < OWN_ROWS; ++j) {
      const uint t = row + min(group + GROUPS * j, count - 1u);
      const uint q_at = t * p.query_stride + key_at;
      seen[j] += dot(LOAD_QUAD(query, q_at, n), own);
#ifdef DELTA
      known[j] += dot(changes[((t * heads + head) * PADDED + n) >> 2], own);
#endif
    }
  }
}

// Decays the state by a chunk and adds its rows' keys times their changes.
void advance_state(uint row, uint count, uint key_at, float kept) {
  const uint column = gl_LocalInvocationID.x % COLUMNS, group = gl_LocalInvocationID.x / COLUMNS;
  [[dont_unroll]] for (uint n = 4u * group; n < PADDED; n += 4u * GROUPS) {
    vec4 sum = kept * vec4(s[n][column], s[n + 1u][column], s[n + 2u][column], s[n + 3u][column]);
    [[dont_unroll]] for (uint t = 0; t < count; ++t) {
      const uint k_at = (row + t) * p.key_stride + key_at;
      sum += LOAD_QUAD(key, k_at, n) * (u[t][column] * k_scale[t]);
    }
    [[unroll]] for (uint i = 0; i < 4; ++i) s[n + i][column] = sum[i];
  }
}

void main() {
  const uint rows = step_block[0][ROWS_TOKENS], heads = p.columns / p.head_dim;
  uint row = gl_WorkGroupID.x;
  if (row >= rows || goes_on(row)) return;
  const uint blocks = (p.head_dim + COLUMNS - 1u) / COLUMNS;
  const uint head = gl_WorkGroupID.y / blocks;
  if (head >= heads) {
    const uint padding = p.columns + gl_LocalInvocationID.x;
    if (padding < ((p.columns + 31u) & ~31u)) clear_column(row, rows, padding);
    return;
  }
  const uint column = gl_LocalInvocationID.x % COLUMNS, group = gl_LocalInvocationID.x / COLUMNS;
  const uint in_head = gl_WorkGroupID.y % blocks * COLUMNS + column;
  const bool real = in_head < p.head_dim;
  const uint channel = head * p.head_dim + in_head;
  const uint key_at = head / p.key_share % p.key_heads * SIZE;
  const uvec4 token = step_row(row);
  load_state(token, channel, real);
#ifndef DELTA
  const float skip = weights[p.weight_stride + head];
#endif

  uint position = token.y;
  for (bool more = true; more;) {
    const uint count = chunk_rows(row, rows);
    barrier();
    float seen[OWN_ROWS], known[OWN_ROWS], own[OWN_ROWS];
    read_state(row, count, head, key_at, seen, known);
    if (gl_LocalInvocationID.x < count) k_scale[gl_LocalInvocationID.x] = scales_of((row + gl_LocalInvocationID.x) * heads + head).y;
    [[unroll]] for (uint j = 0; j < OWN_ROWS; ++j) {
      const uint t = group + GROUPS * j;
      own[j] = 0.0;
      if (real && t < count) {
#ifdef DELTA
        own[j] = result[(row + t) * p.out_stride + channel] - known[j];
#else
        own[j] = value[(row + t) * p.value_stride + channel];
#endif
      }
      u[t][column] = own[j];
    }
    barrier();
    [[unroll]] for (uint j = 0; j < OWN_ROWS; ++j) {
      const uint t = group + GROUPS * j;
      if (real && t < count) {
        const uint at = (row + t) * heads + head;
        float sum = seen[j] * scales_of(at).x;
        for (uint i = 0; i <= t; i += 4u) {
          sum += dot(matrices[at * RECORD_QUADS + (i >> 2)], vec4(u[i][column], u[i + 1u][column], u[i + 2u][column], u[i + 3u][column]));
        }
#ifndef DELTA
        sum += skip * own[j];
#endif
        result[(row + t) * p.out_stride + channel] = sum;
      }
    }
    advance_state(row, count, key_at, scales_of(row * heads + head).z);
    barrier();
    row += count;
    position += count;
    more = row < rows && goes_on(row);
    if (real && (!more || is_checkpoint(position))) store_state(token.z, position, channel);
  }
}
