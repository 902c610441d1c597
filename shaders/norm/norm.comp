#version 460
// One workgroup for each group of a row's columns. The variance is summed around the mean in a second pass: the difference of two sums would
// lose most digits if the mean is large.
// variant: -
#extension GL_GOOGLE_include_directive : require
#include "common/columns.glsl"
#include "common/types.glsl"
#include "norm/norm.params.h"

layout(local_size_x_id = 0) in;
layout(constant_id = NORM_KIND_ID) const uint KIND = NORM_KIND_RMS;
layout(constant_id = NORM_HAS_BIAS_ID) const uint HAS_BIAS = 0;
layout(push_constant) uniform Push { NormParams p; };
READ_BUFFER(uvec4, step_block, NORM_STEP);
READ_BUFFER(vec4, x, NORM_X);
READ_BUFFER(vec4, weight, NORM_WEIGHT);
READ_BUFFER(vec4, bias, NORM_BIAS);
WRITE_BUFFER(vec4, result, NORM_RESULT);

#include "common/reduce.glsl"

void main() {
  const uint row = gl_WorkGroupID.x, group = gl_WorkGroupID.y;
  if (row >= step_block[0][p.rows_kind]) return;
  const uint quads = (p.columns + 3u) >> 2;
  const uint from = row * (p.x_stride >> 2) + group * quads;
  const uint first = gl_LocalInvocationID.x;

  float mean = 0.0;
  if (KIND == NORM_KIND_LAYER) {
    for (uint i = first; i < quads; i += gl_WorkGroupSize.x) mean += dot(keep_columns(x[from + i], i, p.columns), vec4(1.0));
    mean = workgroup_sum(mean) / float(p.columns);
  }
  float squares = 0.0;
  for (uint i = first; i < quads; i += gl_WorkGroupSize.x) {
    const vec4 v = keep_columns(x[from + i] - mean, i, p.columns);
    squares += dot(v, v);
  }
  const float scale = 1.0 / sqrt(workgroup_sum(squares) / float(p.columns) + p.eps);

  const uint to = row * (p.out_stride >> 2) + group * quads;
  const bool last = group + 1u == p.groups; // the row's padding follows
  const uint padded_quads = last ? ((p.columns * p.groups + 31u) >> 5) * 8u - group * quads : quads;
  for (uint i = first; i < padded_quads; i += gl_WorkGroupSize.x) {
    vec4 v = vec4(0.0);
    if (i < quads) { // a view's row may end here
      v = (x[from + i] - mean) * scale * (weight[i] + p.offset);
      if (HAS_BIAS != 0u) v += bias[i];
    }
    result[to + i] = keep_columns(v, i, p.columns);
  }
}
