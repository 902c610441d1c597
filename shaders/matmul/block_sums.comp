#version 460
// An invocation to a sum.
// variant: -
#extension GL_GOOGLE_include_directive : require
#include "common/types.glsl"
#include "matmul/block_sums.params.h"

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint PARTS = 1;
layout(push_constant) uniform Push { BlockSumsParams p; };
READ_BUFFER(uvec4, step_block, BLOCK_SUMS_STEP);
READ_BUFFER(vec4, x, BLOCK_SUMS_X);
WRITE_BUFFER(float, result, BLOCK_SUMS_RESULT);

void main() {
  const uint row = gl_WorkGroupID.x;
  const uint i = gl_GlobalInvocationID.y * gl_WorkGroupSize.x + gl_LocalInvocationID.x;
  if (row >= step_block[0][p.rows_kind] || i >= p.sums) return;
  const uint from = row * (p.x_stride >> 2) + i * (8u / PARTS);
  float sum = 0.0;
  for (uint j = 0; j < 8u / PARTS; ++j) {
    const vec4 v = x[from + j];
    sum += (v.x + v.y) + (v.z + v.w);
  }
  result[row * p.sums + i] = sum;
}
