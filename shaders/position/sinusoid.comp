#version 460
// Some of the columns of one row to a workgroup, four at a time to an invocation.
// variant: -
#extension GL_GOOGLE_include_directive : require
#include "common/columns.glsl"
#include "common/types.glsl"
#include "position/cos_sin.glsl"
#include "position/sinusoid.params.h"

layout(local_size_x_id = 0) in;
layout(constant_id = SINUSOID_LAYOUT_ID) const uint LAYOUT = SINUSOID_LAYOUT_INTERLEAVED;
layout(push_constant) uniform Push { SinusoidParams p; };
READ_BUFFER(uvec4, step_block, SINUSOID_STEP);
READ_BUFFER(vec4, x, SINUSOID_X);
READ_BUFFER(uvec2, table, SINUSOID_TABLE);
WRITE_BUFFER(vec4, result, SINUSOID_RESULT);

float encoding(uint position, uint column) {
  const uint sines = (p.columns + 1u) / 2u;
  const bool interleaved = LAYOUT == SINUSOID_LAYOUT_INTERLEAVED;
  const bool sine = interleaved ? column % 2u == 0u : column < sines;
  const vec2 r = cos_sin(position, table[interleaved ? column / 2u : sine ? column : column - sines]);
  return sine ? r.y : r.x;
}

void main() {
  const uint row = gl_WorkGroupID.x;
  if (row >= step_block[0][ROWS_TOKENS]) return;
  const uvec4 token = step_block[STEP_HEADER_QUADS + row];
  const uint position = token.y - token.w + p.first;
  const uint from = row * (p.x_stride >> 2), to = row * (p.out_stride >> 2);
  const uint quads = (p.columns + 3u) >> 2, padded_quads = ((p.columns + 31u) >> 5) * 8u;
  for (uint i = gl_GlobalInvocationID.y * gl_WorkGroupSize.x + gl_LocalInvocationID.x; i < padded_quads;
       i += gl_NumWorkGroups.y * gl_WorkGroupSize.x) {
    vec4 v = vec4(0.0);
    if (i < quads) {
      v = x[from + i];
      for (uint j = 0; j < 4u; ++j) v[j] += encoding(position, min(4u * i + j, p.columns - 1u));
    }
    result[to + i] = keep_columns(v, i, p.columns);
  }
}
