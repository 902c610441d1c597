#version 460
// Four columns of one output to an invocation, which goes down the input's rows, so that the order of additions is the
// same wherever they lie. Sixteen rows at a time: some drivers end a shader's loops after 65,535 rounds.
// variant: -
#extension GL_GOOGLE_include_directive : require
#include "common/columns.glsl"
#include "common/types.glsl"
#include "pooling/mean_rows.params.h"

layout(local_size_x_id = 0) in;
layout(constant_id = MEAN_ROWS_LARGEST_ID) const uint LARGEST = 0;
layout(push_constant) uniform Push { MeanRowsParams p; };
READ_BUFFER(uvec4, step_block, MEAN_ROWS_STEP);
READ_BUFFER(vec4, x, MEAN_ROWS_X);
WRITE_BUFFER(vec4, result, MEAN_ROWS_RESULT);

#include "pooling/input_rows.glsl"

vec4 load(uint from, uint row, uint count) {
  return row < count ? x[from + row * (p.x_stride >> 2)] : vec4(0.0);
}

vec4 combine(vec4 a, vec4 b) { return LARGEST != 0u ? max(a, b) : a + b; }

vec4 four_rows(uint from, uint row, uint count) {
  return combine(combine(load(from, row, count), load(from, row + 1u, count)),
                 combine(load(from, row + 2u, count), load(from, row + 3u, count)));
}

void main() {
  const uint row = gl_WorkGroupID.x;
  const uint quad = gl_GlobalInvocationID.y * gl_WorkGroupSize.x + gl_LocalInvocationID.x;
  if (row >= step_block[0][ROWS_OUTPUTS] || quad >= ((p.columns + 31u) >> 5) * 8u) return;
  vec4 sum = vec4(0.0);
  if (quad < (p.columns + 3u) >> 2) {
    const uint first = step_block[STEP_HEADER_QUADS + p.capacity + row].x;
    const uint count = rows_from(first);
    const uint from = first * (p.x_stride >> 2) + quad;
    for (uint i = 0; i < count; i += 16u) {
      sum = combine(sum, combine(combine(four_rows(from, i, count), four_rows(from, i + 4u, count)),
                                 combine(four_rows(from, i + 8u, count), four_rows(from, i + 12u, count))));
    }
    if (LARGEST == 0u) sum /= float(max(count, 1u));
  }
  result[row * (p.out_stride >> 2) + quad] = keep_columns(sum, quad, p.columns);
}
