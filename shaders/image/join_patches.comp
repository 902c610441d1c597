#version 460
// Some of the columns of one row to a workgroup, four at a time to an invocation.
// variant: -
#extension GL_GOOGLE_include_directive : require
#include "common/types.glsl"
#include "image/join_patches.params.h"

layout(local_size_x_id = 0) in;
layout(constant_id = JOIN_PATCHES_RULE_ID) const uint RULE = JOIN_PATCHES_JOINED;
layout(push_constant) uniform Push { JoinPatchesParams p; };
READ_BUFFER(uvec4, step_block, JOIN_PATCHES_STEP);
READ_BUFFER(float, x, JOIN_PATCHES_X);
WRITE_BUFFER(vec4, result, JOIN_PATCHES_RESULT);

void main() {
  const uint row = gl_WorkGroupID.x, rows = step_block[0][ROWS_TOKENS];
  if (row >= rows) return;
  const uvec4 token = step_block[STEP_HEADER_QUADS + row];
  const uint place = token.y - token.w, length = step_block[p.details + row].w - token.w;
  const uint first = row - place + place * p.joined;
  const bool filled = place < length / p.joined && first + p.joined <= rows;

  const bool averaged = RULE == JOIN_PATCHES_AVERAGED;
  const uint columns = averaged ? p.columns : p.joined * p.columns;
  const uint to = row * (p.out_stride >> 2), padded_quads = ((columns + 31u) >> 5) * 8u;
  for (uint i = gl_GlobalInvocationID.y * gl_WorkGroupSize.x + gl_LocalInvocationID.x; i < padded_quads;
       i += gl_NumWorkGroups.y * gl_WorkGroupSize.x) {
    vec4 v = vec4(0.0);
    for (uint j = 0; j < 4u; ++j) {
      const uint column = 4u * i + j;
      if (!filled || column >= columns) break;
      if (!averaged) {
        v[j] = x[(first + column / p.columns) * p.x_stride + column % p.columns];
        continue;
      }
      float sum = 0.0;
      for (uint k = 0; k < p.joined; ++k) sum += x[(first + k) * p.x_stride + column];
      v[j] = sum / float(p.joined);
    }
    result[to + i] = v;
  }
}
