#version 460
// Some of the columns of one row to a workgroup, four at a time to an invocation.
// variant: -
#extension GL_GOOGLE_include_directive : require
#include "common/types.glsl"
#include "convolution/pair_windows.params.h"

layout(local_size_x_id = 0) in;
layout(push_constant) uniform Push { PairWindowsParams p; };
READ_BUFFER(uvec4, step_block, PAIR_WINDOWS_STEP);
READ_BUFFER(float, even, PAIR_WINDOWS_EVEN);
READ_BUFFER(float, odd, PAIR_WINDOWS_ODD);
WRITE_BUFFER(vec4, result, PAIR_WINDOWS_RESULT);

void main() {
  const uint row = gl_WorkGroupID.x;
  if (row >= step_block[0][ROWS_TOKENS]) return;
  const uvec4 token = step_block[STEP_HEADER_QUADS + row];
  const bool has_previous = token.y != token.w && row > 0u;
  const uint to = row * (p.out_stride >> 2), padded_quads = ((p.columns + 31u) >> 5) * 8u;
  for (uint i = gl_GlobalInvocationID.y * gl_WorkGroupSize.x + gl_LocalInvocationID.x; i < padded_quads;
       i += gl_NumWorkGroups.y * gl_WorkGroupSize.x) {
    vec4 v = vec4(0.0);
    for (uint j = 0; j < 4u; ++j) {
      const uint column = 4u * i + j;
      if (column >= p.columns) break;
      const uint channel = column / 3u, tap = column % 3u;
      if (tap == 1u) {
        v[j] = even[row * p.even_stride + channel];
      } else if (tap == 2u || has_previous) {
        v[j] = odd[(tap == 2u ? row : row - 1u) * p.odd_stride + channel];
      }
    }
    result[to + i] = v;
  }
}
