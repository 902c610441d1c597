#version 460
// Some of an input's frames to an invocation.
// variant: -
#extension GL_GOOGLE_include_directive : require
#include "audio/log_mel_features.params.h"
#include "common/types.glsl"

layout(local_size_x_id = 0) in;
layout(push_constant) uniform Push { LogMelFeaturesParams p; };
READ_BUFFER(uvec4, step_block, LOG_MEL_FEATURES_STEP);
READ_BUFFER(vec4, logs, LOG_MEL_FEATURES_LOGS);
WRITE_BUFFER(float, maxima, LOG_MEL_FEATURES_MAXIMA);

const float LEAST = -10.0; // the logarithm that energies are held to

void main() {
  const uint row = gl_WorkGroupID.x;
  const uint part = gl_GlobalInvocationID.y * gl_WorkGroupSize.x + gl_LocalInvocationID.x;
  if (row >= step_block[0][ROWS_OUTPUTS] || part >= LOG_MEL_MAXIMA) return;
  const uint each = (p.frames + LOG_MEL_MAXIMA - 1u) / LOG_MEL_MAXIMA;
  const uint quads = (p.mels + 3u) >> 2;
  vec4 largest = vec4(LEAST);
  for (uint frame = part * each; frame < min((part + 1u) * each, p.frames); ++frame) {
    const uint from = (row * p.frames + frame) * (p.logs_stride >> 2);
    for (uint i = 0; i < quads; ++i) {
      largest = max(largest, mix(vec4(LEAST), logs[from + i], lessThan(uvec4(0, 1, 2, 3) + 4u * i, uvec4(p.mels))));
    }
  }
  maxima[row * LOG_MEL_MAXIMA + part] = max(max(largest.x, largest.y), max(largest.z, largest.w));
}
