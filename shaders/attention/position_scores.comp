#version 460
// A workgroup takes one head of POSITION_SCORES_ROWS rows, for queries or for keys; an invocation takes every
// gl_WorkGroupSize.x-th bucket. A row's arithmetic does not depend on the rows that share its workgroup.
// variant: -
#extension GL_GOOGLE_include_directive : require
#include "common/types.glsl"
#include "attention/position_scores.params.h"

layout(local_size_x_id = 0) in;
layout(constant_id = POSITION_SCORES_HEAD_DIM_ID) const uint HEAD_DIM = 64;
layout(push_constant) uniform Push { PositionScoresParams p; };
READ_BUFFER(uvec4, step_block, POSITION_SCORES_STEP);
READ_BUFFER(float, q, POSITION_SCORES_Q);
READ_BUFFER(float, k, POSITION_SCORES_K);
READ_BUFFER(vec4, table, POSITION_SCORES_TABLE);
WRITE_BUFFER(float, result, POSITION_SCORES_RESULT);

const uint ROWS = POSITION_SCORES_ROWS;
const uint QUADS = (HEAD_DIM + 3) / 4;
shared vec4 head[ROWS * QUADS];

float load(bool of_keys, uint row, uint d) {
  if (d >= HEAD_DIM) return 0.0;
  const uint at = gl_WorkGroupID.y * HEAD_DIM + d;
  return of_keys ? k[p.k_first + row * p.k_stride + at] : q[p.q_first + row * p.q_stride + at];
}

void main() {
  const uint rows = step_block[0][ROWS_TOKENS];
  const uint first = gl_WorkGroupID.x * ROWS;
  if (first >= rows) return;
  const bool of_keys = gl_WorkGroupID.z == 1u;
  for (uint i = gl_LocalInvocationID.x; i < ROWS * QUADS; i += gl_WorkGroupSize.x) {
    const uint row = min(first + i / QUADS, rows - 1u), d = i % QUADS * 4u;
    head[i] = vec4(load(of_keys, row, d), load(of_keys, row, d + 1u), load(of_keys, row, d + 2u), load(of_keys, row, d + 3u));
  }
  barrier();
  const uint side = gl_WorkGroupID.z * p.heads + gl_WorkGroupID.y;
  for (uint bucket = gl_LocalInvocationID.x; bucket < p.buckets; bucket += gl_WorkGroupSize.x) {
    vec4 sum[ROWS];
    [[unroll]] for (uint i = 0; i < ROWS; ++i) sum[i] = vec4(0.0);
    [[dont_unroll]] for (uint quad = 0; quad < QUADS; ++quad) {
      const vec4 position = table[(side * QUADS + quad) * p.buckets + bucket];
      [[unroll]] for (uint i = 0; i < ROWS; ++i) sum[i] = fma(position, head[i * QUADS + quad], sum[i]);
    }
    [[unroll]] for (uint i = 0; i < ROWS; ++i) {
      if (first + i >= rows) break;
      const float score = (sum[i].x + sum[i].y) + (sum[i].z + sum[i].w);
      result[(first + i) * p.result_stride + side * p.buckets + bucket] = p.scale * score;
    }
  }
  const uint columns = 2u * p.heads * p.buckets;
  if (side != 2u * p.heads - 1u) return;
  for (uint i = gl_LocalInvocationID.x; i < ROWS * 32u; i += gl_WorkGroupSize.x) {
    const uint row = first + i / 32u, column = columns + i % 32u;
    if (row < rows && column < (columns + 31u) / 32u * 32u) result[row * p.result_stride + column] = 0.0;
  }
}
