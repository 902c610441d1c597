#version 460
// A workgroup takes the scores of one channel: each invocation sums those of its pixels, then all are added up.
// variant: -
#extension GL_GOOGLE_include_directive : require
#include "common/types.glsl"
#include "convolution/channel_scores.params.h"

layout(local_size_x_id = 0) in;
layout(constant_id = CHANNEL_SCORES_GROUP_QUADS_ID) const uint GROUP_QUADS = 8;
layout(push_constant) uniform Push { ChannelScoresParams p; };
READ_BUFFER(uvec4, step_block, CHANNEL_SCORES_STEP);
READ_BUFFER(float, query, CHANNEL_SCORES_QUERY);
READ_BUFFER(vec4, key, CHANNEL_SCORES_KEY);
WRITE_BUFFER(vec4, result, CHANNEL_SCORES_RESULT);

#include "common/reduce.glsl"

void main() {
  const uint row = gl_WorkGroupID.x, channel = gl_WorkGroupID.y;
  if (row >= step_block[0][ROWS_OUTPUTS]) return;
  const uint group = channel / (4u * GROUP_QUADS), quads = p.channels >> 2;
  const uint query_from = row * p.query_stride + channel, key_from = row * (p.key_stride >> 2) + group * GROUP_QUADS;
  vec4 score[GROUP_QUADS]; // in registers: unrolled, no loop makes an address of i
  [[unroll]] for (uint i = 0; i < GROUP_QUADS; ++i) score[i] = vec4(0.0);
  for (uint pixel = gl_LocalInvocationID.x; pixel < p.pixels; pixel += gl_WorkGroupSize.x) {
    const float q = query[query_from + pixel * p.channels];
    [[unroll]] for (uint i = 0; i < GROUP_QUADS; ++i) score[i] += q * key[key_from + pixel * quads + i];
  }
  float best = -3e38;
  [[unroll]] for (uint i = 0; i < GROUP_QUADS; ++i) {
    [[unroll]] for (uint j = 0; j < 4u; ++j) {
      score[i][j] = workgroup_sum(score[i][j]) * p.scale;
      best = max(best, score[i][j]);
    }
  }
  float total = 0.0;
  [[unroll]] for (uint i = 0; i < GROUP_QUADS; ++i) {
    score[i] = exp(score[i] - best);
    total += dot(score[i], vec4(1.0));
  }
  if (gl_LocalInvocationID.x != 0u) return;
  const uint to = (row * p.channels + channel) * GROUP_QUADS;
  [[unroll]] for (uint i = 0; i < GROUP_QUADS; ++i) result[to + i] = score[i] / total;
}
