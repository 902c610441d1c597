#version 460
// A workgroup to a row.
// variant: -
#extension GL_GOOGLE_include_directive : require
#include "common/types.glsl"
#include "streams/match_streams.params.h"

layout(local_size_x_id = 0) in;
layout(constant_id = MATCH_STREAMS_STREAMS_ID) const uint STREAMS = 4;
layout(constant_id = MATCH_STREAMS_MEAN_ID) const uint MEAN = 0;
layout(push_constant) uniform Push { MatchStreamsParams p; };
READ_BUFFER(uvec4, step_block, MATCH_STREAMS_STEP);
READ_BUFFER(vec4, first, MATCH_STREAMS_FIRST);
READ_BUFFER(vec4, others, MATCH_STREAMS_OTHERS);
WRITE_BUFFER(vec4, result, MATCH_STREAMS_RESULT);

#include "common/reduce.glsl"

shared float factors[STREAMS];

float first_square(uint from, uint quads) {
  float squares = 0.0;
  for (uint i = gl_LocalInvocationID.x; i < quads; i += gl_WorkGroupSize.x) squares += dot(first[from + i], first[from + i]);
  return workgroup_sum(squares) / float(p.columns);
}

float other_square(uint from, uint quads) {
  float squares = 0.0;
  for (uint i = gl_LocalInvocationID.x; i < quads; i += gl_WorkGroupSize.x) squares += dot(others[from + i], others[from + i]);
  return workgroup_sum(squares) / float(p.columns);
}

void main() {
  const uint row = gl_WorkGroupID.x;
  if (row >= step_block[0][p.rows_kind]) return;
  const uint quads = p.columns >> 2, from = row * (p.first_stride >> 2), from_others = row * (p.others_stride >> 2);
  const uint to = row * (p.out_stride >> 2), width = gl_WorkGroupSize.x;
  const float wanted = sqrt(first_square(from, quads));
  for (uint stream = 1; stream < STREAMS; ++stream) {
    const float square = other_square(from_others + (stream - 1u) * quads, quads);
    if (gl_LocalInvocationID.x == 0u) factors[stream] = wanted / sqrt(max(square, p.least));
  }
  barrier();
  for (uint i = gl_LocalInvocationID.x; i < quads; i += width) {
    vec4 sum = first[from + i];
    if (MEAN == 0u) result[to + i] = sum;
    for (uint stream = 1; stream < STREAMS; ++stream) {
      const uint place = stream * quads + i;
      const vec4 v = factors[stream] * others[from_others + place - quads];
      if (MEAN == 0u) result[to + place] = v;
      sum += v;
    }
    if (MEAN != 0u) result[to + i] = sum / float(STREAMS);
  }
  const uint all = MEAN != 0u ? quads : quads * STREAMS, padded = ((all + 7u) >> 3) * 8u;
  for (uint i = all + gl_LocalInvocationID.x; i < padded; i += width) result[to + i] = vec4(0.0);
}
