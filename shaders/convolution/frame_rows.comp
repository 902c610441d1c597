#version 460
// Some of the columns of one row to a workgroup, four at a time to an invocation.
// variant: -
#extension GL_GOOGLE_include_directive : require
#include "common/types.glsl"
#include "convolution/frame_rows.params.h"

layout(local_size_x_id = 0) in;
layout(constant_id = FRAME_ROWS_HAS_REST_ID) const uint HAS_REST = 0;
layout(push_constant) uniform Push { FrameRowsParams p; };
READ_BUFFER(uvec4, step_block, FRAME_ROWS_STEP);
READ_BUFFER(vec4, x, FRAME_ROWS_X);
WRITE_BUFFER(vec4, result, FRAME_ROWS_RESULT);
READ_BUFFER(vec4, rest, FRAME_ROWS_REST);

void main() {
  const uint row = gl_WorkGroupID.x;
  if (row >= step_block[0][ROWS_TOKENS]) return;
  const uvec4 token = step_block[STEP_HEADER_QUADS + row];
  const uint frame = token.y - token.w, quads = p.columns / 4u;
  const bool known = token.x < step_block[0][ROWS_OUTPUTS] && frame < p.frames;
  const uint from = token.x * (p.x_stride >> 2) + frame * quads;
  const uint to = row * (p.out_stride >> 2), padded_quads = ((p.columns + 31u) >> 5) * 8u;
  for (uint i = gl_GlobalInvocationID.y * gl_WorkGroupSize.x + gl_LocalInvocationID.x; i < padded_quads;
       i += gl_NumWorkGroups.y * gl_WorkGroupSize.x) {
    vec4 v = vec4(0.0);
    if (known && i < quads) v = x[from + i];
    if (HAS_REST != 0u && frame >= p.frames) v = rest[row * (p.rest_stride >> 2) + i];
    result[to + i] = v;
  }
}
