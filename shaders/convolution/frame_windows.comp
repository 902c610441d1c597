#version 460
// Some of the columns of one row to a workgroup, four at a time to an invocation.
// variant: -
#extension GL_GOOGLE_include_directive : require
#include "common/types.glsl"
#include "convolution/frame_windows.params.h"

layout(local_size_x_id = 0) in;
layout(push_constant) uniform Push { FrameWindowsParams p; };
READ_BUFFER(uvec4, step_block, FRAME_WINDOWS_STEP);
READ_BUFFER(float, features, FRAME_WINDOWS_FEATURES);
WRITE_BUFFER(vec4, result, FRAME_WINDOWS_RESULT);

void main() {
  const uint row = gl_WorkGroupID.x;
  if (row >= step_block[0][ROWS_TOKENS]) return;
  const uvec4 token = step_block[STEP_HEADER_QUADS + row];
  const bool known = token.x < step_block[0][ROWS_OUTPUTS];
  const uint from = token.x * p.features_stride;
  const uint begin = (token.y - token.w) * p.stride + p.first; // before the first frame it wraps round to past the last
  const uint to = row * (p.out_stride >> 2), padded_quads = ((p.columns + 31u) >> 5) * 8u;
  for (uint i = gl_GlobalInvocationID.y * gl_WorkGroupSize.x + gl_LocalInvocationID.x; i < padded_quads;
       i += gl_NumWorkGroups.y * gl_WorkGroupSize.x) {
    vec4 v = vec4(0.0);
    for (uint j = 0; j < 4u; ++j) {
      const uint column = 4u * i + j;
      const uint frame = begin + column % p.taps;
      if (known && column < p.columns && frame < p.frames) v[j] = features[from + column / p.taps * p.frames + frame];
    }
    result[to + i] = v;
  }
}
