#version 460
// Some of the columns of one row to a workgroup, four at a time to an invocation.
// variant: -
#extension GL_GOOGLE_include_directive : require
#include "common/activation.glsl"
#include "common/columns.glsl"
#include "common/types.glsl"
#include "elementwise/elementwise.params.h"

layout(local_size_x_id = 0) in;
layout(constant_id = ELEMENTWISE_KIND_ID) const uint KIND = ELEMENTWISE_ADD;
layout(constant_id = ELEMENTWISE_ACTIVATION_ID) const uint ACTIVATION = 0;
layout(push_constant) uniform Push { ElementwiseParams p; };
READ_BUFFER(uvec4, step_block, ELEMENTWISE_STEP);
READ_BUFFER(vec4, a, ELEMENTWISE_A);
READ_BUFFER(vec4, b, ELEMENTWISE_B);
WRITE_BUFFER(vec4, result, ELEMENTWISE_RESULT);

float xielu(float x) {
  if (x > 0.0) return p.slope * x + p.rise * x * x;
  // exp(m) - 1 - m, by its series where that would leave few digits.
  const float m = min(x, p.end), square = m * m;
  const float series = square * (1.0 / 2.0 + m / 6.0 + square * (1.0 / 24.0 + m / 120.0 + square / 720.0));
  return p.slope * x + p.fall * ((m > -0.25 ? series : exp(m) - 1.0 - m) + (m - x));
}

vec4 combine(uint a_at, uint b_at, uint b_row) {
  vec4 v = a[a_at];
  if (KIND == ELEMENTWISE_GATE_ROWS) return v / (1.0 + exp(-clamp(b[b_row].x, -80.0, 80.0)));
  if (KIND == ELEMENTWISE_GATE_SIGMOID) return v / (1.0 + exp(-clamp(b[b_at], -80.0, 80.0)));
  if (KIND == ELEMENTWISE_ADD) return v + b[b_at];
  if (KIND == ELEMENTWISE_SCALE) return v * p.amount;
  if (KIND == ELEMENTWISE_CLAMP) return clamp(v, p.least, p.amount);
  if (KIND == ELEMENTWISE_XIELU) {
    for (uint j = 0; j < 4u; ++j) v[j] = xielu(v[j]);
    return v;
  }
  if (KIND == ELEMENTWISE_SOFT_CAP) {
    for (uint j = 0; j < 4u; ++j) v[j] = p.amount * finite_tanh(v[j] / p.amount);
    return v;
  }
  for (uint j = 0; j < 4u; ++j) v[j] = activate(ACTIVATION, v[j]);
  return KIND == ELEMENTWISE_GATE ? v * b[b_at] : v;
}

void main() {
  const uint row = gl_WorkGroupID.x;
  if (row >= step_block[0][p.rows_kind]) return;
  const uint a_at = (p.a_first + row * p.a_stride) >> 2, b_at = (p.b_first + row * p.b_stride) >> 2;
  const uint to = row * (p.out_stride >> 2);
  const uint quads = (p.columns + 3u) >> 2, padded_quads = ((p.columns + 31u) >> 5) * 8u;
  for (uint i = gl_GlobalInvocationID.y * gl_WorkGroupSize.x + gl_LocalInvocationID.x; i < padded_quads;
       i += gl_NumWorkGroups.y * gl_WorkGroupSize.x) {
    result[to + i] = keep_columns(i < quads ? combine(a_at + i, b_at + i, b_at) : vec4(0.0), i, p.columns);
  }
}
