#version 460
// A workgroup to a row. The variance is summed around the mean, as in norm/norm.comp.
// variant: -
#extension GL_GOOGLE_include_directive : require
#include "common/activation.glsl"
#include "common/columns.glsl"
#include "common/types.glsl"
#include "elementwise/sparse_gate.params.h"

layout(local_size_x_id = 0) in;
layout(constant_id = SPARSE_GATE_ACTIVATION_ID) const uint ACTIVATION = 0;
layout(push_constant) uniform Push { SparseGateParams p; };
READ_BUFFER(uvec4, step_block, SPARSE_GATE_STEP);
READ_BUFFER(vec4, a, SPARSE_GATE_A);
READ_BUFFER(vec4, b, SPARSE_GATE_B);
WRITE_BUFFER(vec4, result, SPARSE_GATE_RESULT);

#include "common/reduce.glsl"

void main() {
  const uint row = gl_WorkGroupID.x;
  if (row >= step_block[0][p.rows_kind]) return;
  const uint a_at = (p.a_first + row * p.a_stride) >> 2, b_at = (p.b_first + row * p.b_stride) >> 2;
  const uint to = row * (p.out_stride >> 2);
  const uint quads = (p.columns + 3u) >> 2, padded_quads = ((p.columns + 31u) >> 5) * 8u;
  const uint first = gl_LocalInvocationID.x;

  float sum = 0.0;
  for (uint i = first; i < quads; i += gl_WorkGroupSize.x) sum += dot(keep_columns(a[a_at + i], i, p.columns), vec4(1.0));
  const float mean = workgroup_sum(sum) / float(p.columns);
  float squares = 0.0;
  for (uint i = first; i < quads; i += gl_WorkGroupSize.x) {
    const vec4 v = keep_columns(a[a_at + i] - mean, i, p.columns);
    squares += dot(v, v);
  }
  const float limit = mean + p.deviations * sqrt(workgroup_sum(squares) / float(p.columns));
  for (uint i = first; i < padded_quads; i += gl_WorkGroupSize.x) {
    vec4 v = vec4(0.0);
    if (i < quads) { // a view's row may end here
      v = max(a[a_at + i] - limit, vec4(0.0));
      for (uint j = 0; j < 4u; ++j) v[j] = activate(ACTIVATION, v[j]);
      v *= b[b_at + i];
    }
    result[to + i] = keep_columns(v, i, p.columns);
  }
}
