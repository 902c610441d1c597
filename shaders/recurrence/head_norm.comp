#version 460
// A row to a workgroup, a head at a time.
// variant: -
#extension GL_GOOGLE_include_directive : require
#include "common/types.glsl"
#include "recurrence/head_norm.params.h"

layout(local_size_x_id = 0) in;
layout(push_constant) uniform Push { HeadNormParams p; };
READ_BUFFER(uvec4, step_block, HEAD_NORM_STEP);
READ_BUFFER(float, x, HEAD_NORM_X);
READ_BUFFER(float, weight, HEAD_NORM_WEIGHT);
WRITE_BUFFER(float, result, HEAD_NORM_RESULT);

#include "common/reduce.glsl"

void main() {
  const uint row = gl_WorkGroupID.x;
  if (row >= step_block[0][ROWS_TOKENS]) return;
  const uint first = gl_LocalInvocationID.x;
  const uint from = row * p.x_stride, to = row * p.out_stride;
  for (uint head = 0; head < p.columns; head += p.head_dim) {
    float squares = 0.0;
    for (uint i = first; i < p.head_dim; i += gl_WorkGroupSize.x) {
      const float v = x[from + head + i];
      squares += v * v;
    }
    const float scale = 1.0 / sqrt(workgroup_sum(squares) / float(p.head_dim) + p.eps);
    for (uint i = first; i < p.head_dim; i += gl_WorkGroupSize.x) {
      const uint column = head + i;
      result[to + column] = x[from + column] * scale * weight[column % p.weights];
    }
  }
  for (uint i = p.columns + first; i < ((p.columns + 31u) & ~31u); i += gl_WorkGroupSize.x) result[to + i] = 0.0;
}
