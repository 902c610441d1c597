#version 460
// A workgroup to a row: its largest logit, the sum of exp(logit - largest), and from both the target's log-probability.
// variant: -
#extension GL_GOOGLE_include_directive : require
#include "common/types.glsl"
#include "scoring/log_likelihood.params.h"

layout(local_size_x_id = 0) in;
layout(push_constant) uniform Push { LogLikelihoodParams p; };
READ_BUFFER(uvec4, step_block, LIKELIHOOD_STEP);
READ_BUFFER(vec4, logits, LIKELIHOOD_LOGITS);
WRITE_BUFFER(float, result, LIKELIHOOD_RESULT);

#include "common/reduce.glsl"

const uint INFINITE = 0x7f800000u, MINUS_INFINITE = 0xff800000u, NOT_A_NUMBER = 0x7fc00000u;
const uint BLOCK = 32; // columns that are added up before they join the sum, which keeps small ones from being lost
shared float shared_maxima[gl_WorkGroupSize.x];

// What lies behind the last column counts as minus infinity.
vec4 load(uint quad, uint column) {
  const vec4 v = logits[quad];
  const uvec4 columns = column + uvec4(0u, 1u, 2u, 3u);
  return mix(vec4(uintBitsToFloat(MINUS_INFINITE)), v, lessThan(columns, uvec4(p.columns)));
}

void main() {
  const uint row = gl_WorkGroupID.x, me = gl_LocalInvocationID.x;
  if (row >= step_block[0][ROWS_OUTPUTS]) return;
  const uint from = row * (p.stride >> 2);

  float largest = uintBitsToFloat(0xff7fffffu);
  for (uint first = me * BLOCK; first < p.columns; first += gl_WorkGroupSize.x * BLOCK) {
    for (uint c = first; c < first + BLOCK; c += 4u) {
      const vec4 v = load(from + (c >> 2), c);
      // max() and exp() of some drivers lose what is not a number.
      const bool nan = any(greaterThan(floatBitsToUint(v) & 0x7fffffffu, uvec4(INFINITE)));
      largest = nan ? uintBitsToFloat(INFINITE) : max(largest, max(max(v.x, v.y), max(v.z, v.w)));
    }
  }
  shared_maxima[me] = largest;
  barrier();
  for (uint i = 0u; i < gl_WorkGroupSize.x; ++i) largest = max(largest, shared_maxima[i]);

  float sum = 0.0;
  for (uint first = me * BLOCK; first < p.columns; first += gl_WorkGroupSize.x * BLOCK) {
    vec4 part = vec4(0.0);
    for (uint c = first; c < first + BLOCK; c += 4u) part += exp(load(from + (c >> 2), c) - largest);
    sum += dot(part, vec4(1.0));
  }
  sum = workgroup_sum(sum);

  const uint target = step_block[STEP_HEADER_QUADS + p.capacity + row].y;
  const float logit = logits[from + (target >> 2)][target & 3u];
  const float score = floatBitsToUint(largest) == INFINITE ? uintBitsToFloat(NOT_A_NUMBER) : logit - largest - log(sum);
  // The columns up to the next multiple of 32 are zeros, as those of every tensor.
  for (uint i = me; i < 32u; i += gl_WorkGroupSize.x) {
    result[row * p.out_stride + i] = i == 0u ? score : 0.0;
  }
}
