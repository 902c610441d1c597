#version 460
// Some of the columns of one row to a workgroup, four at a time to an invocation.
// variant: -
#extension GL_GOOGLE_include_directive : require
#include "common/types.glsl"
#include "image/patch_windows.params.h"

layout(local_size_x_id = 0) in;
layout(constant_id = PATCH_WINDOWS_RULE_ID) const uint RULE = PATCH_WINDOWS_JOINED;
layout(push_constant) uniform Push { PatchWindowsParams p; };
READ_BUFFER(uvec4, step_block, PATCH_WINDOWS_STEP);
READ_BUFFER(float, x, PATCH_WINDOWS_X);
WRITE_BUFFER(vec4, result, PATCH_WINDOWS_RESULT);

void main() {
  const uint row = gl_WorkGroupID.x, rows = step_block[0][ROWS_TOKENS];
  if (row >= rows) return;
  const uvec4 token = step_block[STEP_HEADER_QUADS + row];
  const uint place = token.y - token.w, across = p.width / p.window;
  const uint corner = row - place + p.lead + place / across * p.window * p.width + place % across * p.window;
  const bool filled = place < p.count && corner + (p.window - 1u) * (p.width + 1u) < rows;

  const bool joined = RULE == PATCH_WINDOWS_JOINED;
  const uint area = p.window * p.window, columns = joined ? area * p.columns : p.columns;
  const uint to = row * (p.out_stride >> 2), padded_quads = ((columns + 31u) >> 5) * 8u;
  for (uint i = gl_GlobalInvocationID.y * gl_WorkGroupSize.x + gl_LocalInvocationID.x; i < padded_quads;
       i += gl_NumWorkGroups.y * gl_WorkGroupSize.x) {
    vec4 v = vec4(0.0);
    for (uint j = 0; j < 4u; ++j) {
      const uint column = 4u * i + j;
      if (!filled || column >= columns) break;
      if (joined) {
        const uint patch_index = column / p.columns;
        v[j] = x[(corner + patch_index / p.window * p.width + patch_index % p.window) * p.x_stride + column % p.columns];
        continue;
      }
      float sum = 0.0;
      for (uint k = 0; k < area; ++k)
        sum += x[(corner + k / p.window * p.width + k % p.window) * p.x_stride + column];
      v[j] = sum / float(area);
    }
    result[to + i] = v;
  }
}
