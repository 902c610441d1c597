#version 460
// Each workgroup takes some columns of one slot, each invocation four at a time. gpt-oss's gate is clamped: of the gate
// what is above the limit is cut off, of the up both sides, and 1 is added to the up.
// variant: -
#extension GL_GOOGLE_include_directive : require
#include "common/activation.glsl"
#include "common/columns.glsl"
#include "common/types.glsl"
#include "experts/expert_gate.params.h"

layout(local_size_x_id = 0) in;
layout(constant_id = EXPERT_GATE_ACTIVATION_ID) const uint ACTIVATION = ACTIVATION_NONE;
layout(constant_id = EXPERT_GATE_CLAMPED_ID) const uint CLAMPED = 0;
layout(constant_id = EXPERT_GATE_BIAS_ID) const uint BIAS = 0;
layout(constant_id = EXPERT_GATE_SCALED_ID) const uint SCALED = 0;
layout(push_constant) uniform Push { ExpertGateParams p; };
READ_BUFFER(uvec4, step_block, EXPERT_GATE_STEP);
READ_BUFFER(vec4, gate, EXPERT_GATE_GATE);
READ_BUFFER(vec4, up, EXPERT_GATE_UP);
READ_BUFFER(uint, choices, EXPERT_GATE_CHOICES);
READ_BUFFER(float, shares, EXPERT_GATE_SHARES);
READ_BUFFER(float, gate_bias, EXPERT_GATE_GATE_BIAS);
READ_BUFFER(float, up_bias, EXPERT_GATE_UP_BIAS);
WRITE_BUFFER(vec4, result, EXPERT_GATE_RESULT);

const float CLAMPED_SLOPE = 1.702; // of the clamped gate's sigmoid

float gated(float g, float u) {
  if (CLAMPED == 0u) return activate(ACTIVATION, g) * u;
  g = min(g, p.limit);
  u = clamp(u, -p.limit, p.limit);
  return g / (1.0 + exp(-clamp(CLAMPED_SLOPE * g, -80.0, 80.0))) * (u + 1.0);
}

void main() {
  const uint slot = gl_WorkGroupID.x;
  if (slot >= step_block[0][p.rows_kind] * p.used) return;
  const uint at = slot * (p.stride >> 2), quads = ((p.columns + 31u) >> 5) * 8u;
  const float scale = SCALED != 0u ? shares[slot] : 1.0;
  const uint biases = BIAS != 0u ? choices[1u + 2u * slot] * p.columns : 0u;
  for (uint i = gl_GlobalInvocationID.y * gl_WorkGroupSize.x + gl_LocalInvocationID.x; i < quads;
       i += gl_NumWorkGroups.y * gl_WorkGroupSize.x) {
    vec4 g = gate[at + i] * scale, u = up[at + i] * scale, r;
    [[unroll]] for (uint j = 0; j < 4; ++j) {
      if (BIAS != 0u) {
        const uint column = biases + min(i * 4u + j, p.columns - 1u);
        g[j] += gate_bias[column];
        u[j] += up_bias[column];
      }
      r[j] = gated(g[j], u[j]);
    }
    result[at + i] = keep_columns(r, i, p.columns);
  }
}
