#version 460
// Copies the rows whose logits are wanted to consecutive rows, so that later kernels work on these rows only.
// variant: -
#extension GL_GOOGLE_include_directive : require
#include "common/columns.glsl"
#include "common/types.glsl"
#include "embedding/select_rows.params.h"

layout(local_size_x_id = 0) in;
layout(push_constant) uniform Push { SelectRowsParams p; };
READ_BUFFER(uvec4, step_block, SELECT_STEP);
READ_BUFFER(vec4, x, SELECT_X);
WRITE_BUFFER(vec4, result, SELECT_RESULT);

void main() {
  const uint row = gl_WorkGroupID.x;
  if (row >= step_block[0][ROWS_OUTPUTS]) return;
  const uint chosen = min(step_block[STEP_HEADER_QUADS + p.capacity + row].x, step_block[0][ROWS_TOKENS] - 1u);
  const uint from = chosen * (p.x_stride >> 2), to = row * (p.out_stride >> 2);
  const uint quads = (p.columns + 3u) >> 2, padded_quads = ((p.columns + 31u) >> 5) * 8u;
  for (uint i = gl_GlobalInvocationID.y * gl_WorkGroupSize.x + gl_LocalInvocationID.x; i < padded_quads;
       i += gl_NumWorkGroups.y * gl_WorkGroupSize.x) {
    result[to + i] = keep_columns(i < quads ? x[from + i] : vec4(0.0), i, p.columns);
  }
}
