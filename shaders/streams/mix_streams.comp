#version 460
// Some of the columns of one row to a workgroup, four at a time, of all streams, to an invocation.
// variant: -
#extension GL_GOOGLE_include_directive : require
#include "common/tanh.glsl"
#include "common/types.glsl"
#include "streams/mix_streams.params.h"

layout(local_size_x_id = 0) in;
layout(constant_id = MIX_STREAMS_KIND_ID) const uint KIND = MIX_STREAMS_PREDICT;
layout(constant_id = MIX_STREAMS_STREAMS_ID) const uint STREAMS = 4;
layout(push_constant) uniform Push { MixStreamsParams p; };
READ_BUFFER(uvec4, step_block, MIX_STREAMS_STEP);
READ_BUFFER(vec4, x, MIX_STREAMS_X);
READ_BUFFER(float, routed, MIX_STREAMS_ROUTED);
READ_BUFFER(float, coefficients, MIX_STREAMS_COEFFICIENTS);
READ_BUFFER(vec4, added, MIX_STREAMS_ADDED);
WRITE_BUFFER(vec4, result, MIX_STREAMS_RESULT);

const uint COUNT = KIND == MIX_STREAMS_PREDICT ? STREAMS * STREAMS : STREAMS;
shared float shares[STREAMS];
shared float factors[STREAMS * STREAMS];

void find_factors(uint row) {
  for (uint i = gl_LocalInvocationID.x; i < STREAMS; i += gl_WorkGroupSize.x)
    shares[i] = finite_tanh(routed[row * p.routed_stride + i] * p.scale);
  barrier();
  for (uint i = gl_LocalInvocationID.x; i < COUNT; i += gl_WorkGroupSize.x) {
    float sum = 0.0;
    for (uint j = 0; j < STREAMS; ++j) sum += coefficients[i * STREAMS + j] * shares[j];
    factors[i] = sum;
  }
  barrier();
}

void main() {
  const uint row = gl_WorkGroupID.x;
  if (row >= step_block[0][p.rows_kind]) return;
  if (KIND != MIX_STREAMS_ADD) find_factors(row);
  const uint quads = p.columns >> 2, all = quads * STREAMS, padded = ((all + 7u) >> 3) * 8u;
  const uint from = row * (p.x_stride >> 2), to = row * (p.out_stride >> 2), from_added = row * (p.added_stride >> 2);
  const uint first = gl_GlobalInvocationID.y * gl_WorkGroupSize.x + gl_LocalInvocationID.x;
  const uint width = gl_NumWorkGroups.y * gl_WorkGroupSize.x;
  for (uint i = first; i < quads; i += width) {
    vec4 change = vec4(0.0);
    if (KIND != MIX_STREAMS_PREDICT) change = added[from_added + i];
    if (KIND == MIX_STREAMS_CORRECT) change -= x[from + p.computed * quads + i];
    for (uint stream = 0; stream < STREAMS; ++stream) {
      vec4 v = x[from + stream * quads + i];
      if (KIND == MIX_STREAMS_PREDICT) {
        for (uint j = 0; j < STREAMS; ++j) v += factors[stream * STREAMS + j] * x[from + j * quads + i];
      } else if (KIND == MIX_STREAMS_CORRECT) {
        v += (factors[stream] + 1.0) * change;
      } else if (stream > 0u) {
        v += change;
      }
      result[to + stream * quads + i] = v;
    }
  }
  for (uint i = all + first; i < padded; i += width) result[to + i] = vec4(0.0);
}
