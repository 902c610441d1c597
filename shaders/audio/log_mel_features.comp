#version 460
// Some of an input's features to a workgroup, four at a time to an invocation.
// variant: -
#extension GL_GOOGLE_include_directive : require
#include "audio/log_mel_features.params.h"
#include "common/types.glsl"

layout(local_size_x_id = 0) in;
layout(push_constant) uniform Push { LogMelFeaturesParams p; };
READ_BUFFER(uvec4, step_block, LOG_MEL_FEATURES_STEP);
READ_BUFFER(float, logs, LOG_MEL_FEATURES_LOGS);
READ_BUFFER(vec4, maxima, LOG_MEL_FEATURES_MAXIMA);
WRITE_BUFFER(vec4, result, LOG_MEL_FEATURES_RESULT);

float largest(uint row) {
  vec4 m = maxima[row * (LOG_MEL_MAXIMA / 4u)];
  for (uint i = 1; i < LOG_MEL_MAXIMA / 4u; ++i) m = max(m, maxima[row * (LOG_MEL_MAXIMA / 4u) + i]);
  return max(max(m.x, m.y), max(m.z, m.w));
}

void main() {
  const uint row = gl_WorkGroupID.x;
  if (row >= step_block[0][ROWS_OUTPUTS]) return;
  const float least = largest(row) - 8.0;
  const uint columns = p.mels * p.frames, padded_quads = ((columns + 31u) >> 5) * 8u;
  for (uint i = gl_GlobalInvocationID.y * gl_WorkGroupSize.x + gl_LocalInvocationID.x; i < padded_quads;
       i += gl_NumWorkGroups.y * gl_WorkGroupSize.x) {
    vec4 v = vec4(0.0);
    for (uint j = 0; j < 4u; ++j) {
      const uint column = 4u * i + j;
      if (column >= columns) break;
      const float a = logs[(row * p.frames + column % p.frames) * p.logs_stride + column / p.frames];
      v[j] = (max(a, least) + 4.0) * 0.25;
    }
    result[row * (p.out_stride >> 2) + i] = v;
  }
}
