#version 460
// Some of the columns of one row to a workgroup, four at a time to an invocation.
// variant: -
#extension GL_GOOGLE_include_directive : require
#include "common/columns.glsl"
#include "common/types.glsl"
#include "convolution/snake.params.h"

layout(local_size_x_id = 0) in;
layout(push_constant) uniform Push { SnakeParams p; };
READ_BUFFER(uvec4, step_block, SNAKE_STEP);
READ_BUFFER(vec4, x, SNAKE_X);
READ_BUFFER(vec4, alpha, SNAKE_ALPHA);
WRITE_BUFFER(vec4, result, SNAKE_RESULT);

// The square of the sine, up to its sign: Vulkan promises an accurate one for small angles only. The angle without multiples
// of pi, which is taken in two parts, and the sine's series.
vec4 sine(vec4 angle) {
  const vec4 turns = round(angle * 0.31830988618);
  const vec4 a = (angle - turns * 3.140625) - turns * 9.67653589793e-4, z = a * a;
  return a + a * z * (-1.0 / 6.0 + z * (1.0 / 120.0 + z * (-1.0 / 5040.0 + z * (1.0 / 362880.0 - z / 39916800.0))));
}

void main() {
  const uint row = gl_WorkGroupID.x;
  if (row >= step_block[0][ROWS_TOKENS]) return;
  const uint from = row * (p.x_stride >> 2), to = row * (p.out_stride >> 2);
  const uint quads = (p.columns + 3u) >> 2, padded_quads = ((p.columns + 31u) >> 5) * 8u;
  for (uint i = gl_GlobalInvocationID.y * gl_WorkGroupSize.x + gl_LocalInvocationID.x; i < padded_quads;
       i += gl_NumWorkGroups.y * gl_WorkGroupSize.x) {
    vec4 v = vec4(0.0);
    if (i < quads) {
      const vec4 factor = alpha[i % (p.channels / 4u)], s = sine(factor * x[from + i]);
      v = x[from + i] + s * s / (factor + p.least);
    }
    result[to + i] = keep_columns(v, i, p.columns);
  }
}
