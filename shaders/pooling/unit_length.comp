#version 460
// A workgroup to a row.
// variant: -
#extension GL_GOOGLE_include_directive : require
#include "common/columns.glsl"
#include "common/types.glsl"
#include "pooling/unit_length.params.h"

layout(local_size_x_id = 0) in;
layout(push_constant) uniform Push { UnitLengthParams p; };
READ_BUFFER(uvec4, step_block, UNIT_LENGTH_STEP);
READ_BUFFER(vec4, x, UNIT_LENGTH_X);
WRITE_BUFFER(vec4, result, UNIT_LENGTH_RESULT);

#include "common/reduce.glsl"

void main() {
  const uint row = gl_WorkGroupID.x;
  if (row >= step_block[0][p.rows_kind]) return;
  const uint from = row * (p.x_stride >> 2), to = row * (p.out_stride >> 2);
  const uint quads = (p.columns + 3u) >> 2, padded_quads = ((p.columns + 31u) >> 5) * 8u;
  const uint first = gl_LocalInvocationID.x;

  float squares = 0.0;
  for (uint i = first; i < quads; i += gl_WorkGroupSize.x) {
    const vec4 v = keep_columns(x[from + i], i, p.columns);
    squares += dot(v, v);
  }
  const float size = max(sqrt(workgroup_sum(squares)), 1e-12);
  for (uint i = first; i < padded_quads; i += gl_WorkGroupSize.x) {
    result[to + i] = keep_columns(i < quads ? x[from + i] / size : vec4(0.0), i, p.columns);
  }
}
