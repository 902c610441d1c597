#version 460
// Each workgroup takes some columns of one row, each invocation four at a time.
// variant: -
#extension GL_GOOGLE_include_directive : require
#include "common/columns.glsl"
#include "common/types.glsl"
#include "experts/expert_combine.params.h"

layout(local_size_x_id = 0) in;
layout(constant_id = EXPERT_COMBINE_RESIDUAL_ID) const uint RESIDUAL = 0;
layout(constant_id = EXPERT_COMBINE_BIAS_ID) const uint BIAS = 0;
layout(constant_id = EXPERT_COMBINE_WEIGHTED_ID) const uint WEIGHTED = 1;
layout(push_constant) uniform Push { ExpertCombineParams p; };
READ_BUFFER(uvec4, step_block, EXPERT_COMBINE_STEP);
READ_BUFFER(vec4, products, EXPERT_COMBINE_PRODUCTS);
READ_BUFFER(float, shares, EXPERT_COMBINE_SHARES);
READ_BUFFER(vec4, residual, EXPERT_COMBINE_RESIDUAL);
READ_BUFFER(uint, choices, EXPERT_COMBINE_CHOICES);
READ_BUFFER(float, bias, EXPERT_COMBINE_BIAS);
WRITE_BUFFER(vec4, result, EXPERT_COMBINE_RESULT);

vec4 product(uint slot, uint quad) {
  vec4 v = products[slot * (p.products_stride >> 2) + quad];
  if (BIAS == 0u) return v;
  const uint first = choices[1u + 2u * slot] * p.columns;
  [[unroll]] for (uint j = 0; j < 4; ++j) v[j] += bias[first + min(quad * 4u + j, p.columns - 1u)];
  return v;
}

void main() {
  const uint row = gl_WorkGroupID.x;
  if (row >= step_block[0][p.rows_kind]) return;
  const uint quads = ((p.columns + 31u) >> 5) * 8u;
  for (uint i = gl_GlobalInvocationID.y * gl_WorkGroupSize.x + gl_LocalInvocationID.x; i < quads;
       i += gl_NumWorkGroups.y * gl_WorkGroupSize.x) {
    vec4 sum = vec4(0.0);
    for (uint j = 0; j < p.used; ++j) {
      const uint slot = row * p.used + j;
      sum = fma(vec4(WEIGHTED != 0u ? shares[slot] : 1.0), product(slot, i), sum);
    }
    if (RESIDUAL != 0u) sum += residual[row * (p.residual_stride >> 2) + i];
    result[row * (p.out_stride >> 2) + i] = keep_columns(sum, i, p.columns);
  }
}
