#version 460
// A channel of a run to an invocation, which keeps the inputs that the next position sees.
// variant: -
#extension GL_GOOGLE_include_directive : require
#include "common/activation.glsl"
#include "common/types.glsl"
#include "recurrence/causal_convolution.params.h"

layout(local_size_x_id = 0) in;
layout(constant_id = CAUSAL_CONVOLUTION_TAPS_ID) const uint TAPS = 4;
layout(constant_id = CAUSAL_CONVOLUTION_ACTIVATION_ID) const uint ACTIVATION = 0;
layout(constant_id = CAUSAL_CONVOLUTION_HAS_BIAS_ID) const uint HAS_BIAS = 0;
layout(push_constant) uniform Push { CausalConvolutionParams p; };
READ_BUFFER(uvec4, step_block, CAUSAL_CONVOLUTION_STEP);
READ_BUFFER(float, x, CAUSAL_CONVOLUTION_X);
READ_BUFFER(float, taps, CAUSAL_CONVOLUTION_TAPS);
READ_BUFFER(float, bias, CAUSAL_CONVOLUTION_BIAS);
WRITE_BUFFER(float, state, CAUSAL_CONVOLUTION_STATE);
WRITE_BUFFER(float, result, CAUSAL_CONVOLUTION_RESULT);

#include "common/state.glsl"

void main() {
  uint row = gl_WorkGroupID.x;
  const uint rows = step_block[0][ROWS_TOKENS];
  if (row >= rows || goes_on(row)) return;
  const uint channel = gl_WorkGroupID.y * gl_WorkGroupSize.x + gl_LocalInvocationID.x;
  const bool real = channel < p.columns;
  if (channel >= ((p.columns + 31u) & ~31u)) return;
  const uvec4 token = step_row(row);
  const uint size = (TAPS - 1u) * p.columns;

  float window[TAPS]; // the inputs up to the current position
  float weight[TAPS];
  const uint from = state_at(token.z, token.y, p.checkpoints, p.drafts, size) + channel;
  for (uint k = 0; k < TAPS; ++k) {
    weight[k] = real ? taps[channel * TAPS + k] : 0.0;
    window[k] = 0.0;
    if (real && k > 0u && token.y != token.w) window[k] = state[from + (k - 1u) * p.columns];
  }
  const float added = real && HAS_BIAS != 0u ? bias[channel] : 0.0;

  uint position = token.y;
  for (bool more = true; more;) {
    for (uint k = 0; k + 1u < TAPS; ++k) window[k] = window[k + 1u];
    window[TAPS - 1u] = real ? x[row * p.x_stride + channel] : 0.0;
    float sum = added;
    for (uint k = 0; k < TAPS; ++k) sum += weight[k] * window[k];
    result[row * p.out_stride + channel] = real ? activate(ACTIVATION, sum) : 0.0;
    ++row;
    ++position;
    more = row < rows && goes_on(row);
    if (real && is_stored(token.z, position, row, rows, p.drafts)) {
      const uint to = state_at(token.z, position, p.checkpoints, p.drafts, size) + channel;
      for (uint k = 1; k < TAPS; ++k) state[to + (k - 1u) * p.columns] = window[k];
    }
  }
}
