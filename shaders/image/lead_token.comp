#version 460
// Some of the columns of one row to a workgroup, four at a time to an invocation.
// variant: -
#extension GL_GOOGLE_include_directive : require
#include "common/columns.glsl"
#include "common/types.glsl"
#include "image/lead_token.params.h"

layout(local_size_x_id = 0) in;
layout(push_constant) uniform Push { LeadTokenParams p; };
READ_BUFFER(uvec4, step_block, LEAD_TOKEN_STEP);
READ_BUFFER(vec4, x, LEAD_TOKEN_X);
READ_BUFFER(vec4, weight, LEAD_TOKEN_WEIGHT);
WRITE_BUFFER(vec4, result, LEAD_TOKEN_RESULT);

void main() {
  const uint row = gl_WorkGroupID.x;
  if (row >= step_block[0][ROWS_TOKENS]) return;
  const uvec4 token = step_block[STEP_HEADER_QUADS + row];
  const bool leads = token.y == token.w + p.row;
  const uint from = row * (p.x_stride >> 2), to = row * (p.out_stride >> 2);
  const uint quads = (p.columns + 3u) >> 2, padded_quads = ((p.columns + 31u) >> 5) * 8u;
  for (uint i = gl_GlobalInvocationID.y * gl_WorkGroupSize.x + gl_LocalInvocationID.x; i < padded_quads;
       i += gl_NumWorkGroups.y * gl_WorkGroupSize.x) {
    vec4 v = vec4(0.0);
    if (i < quads) v = leads ? weight[i] : x[from + i];
    result[to + i] = keep_columns(v, i, p.columns);
  }
}
