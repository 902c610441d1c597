#version 460
// A row to a workgroup, a column of the result at a time to an invocation.
// variant: -
#extension GL_GOOGLE_include_directive : require
#include "common/types.glsl"
#include "recurrence/delta_gates.params.h"

layout(local_size_x_id = 0) in;
layout(constant_id = DELTA_GATES_LOG_A_ID) const uint LOG_A = 1;
layout(push_constant) uniform Push { DeltaGatesParams p; };
READ_BUFFER(uvec4, step_block, DELTA_GATES_STEP);
READ_BUFFER(float, decays, DELTA_GATES_DECAYS);
READ_BUFFER(float, rates, DELTA_GATES_RATES);
READ_BUFFER(float, weights, DELTA_GATES_WEIGHTS);
WRITE_BUFFER(float, result, DELTA_GATES_RESULT);

#include "common/state.glsl"

void main() {
  const uint row = gl_WorkGroupID.x;
  if (row >= step_block[0][ROWS_TOKENS]) return;
  const uint columns = 2u * p.heads;
  for (uint i = gl_LocalInvocationID.x; i < ((columns + 31u) & ~31u); i += gl_WorkGroupSize.x) {
    float v = 0.0;
    if (i < p.heads) {
      const float a = weights[p.weight_stride + i];
      v = exp((LOG_A != 0u ? -exp(a) : a) * softplus(decays[row * p.decays_stride + i] + weights[i]));
    } else if (i < columns) {
      v = 1.0 / (1.0 + exp(-clamp(rates[row * p.rates_stride + i - p.heads], -80.0, 80.0)));
    }
    result[row * p.out_stride + i] = v;
  }
}
