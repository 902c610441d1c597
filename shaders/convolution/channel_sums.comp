#version 460
// An invocation makes four channels of one pixel, and the zeros that end a row.
// variant: -
#extension GL_GOOGLE_include_directive : require
#include "common/types.glsl"
#include "convolution/channel_sums.params.h"

layout(local_size_x_id = 0) in;
layout(constant_id = CHANNEL_SUMS_GROUP_QUADS_ID) const uint GROUP_QUADS = 8;
layout(push_constant) uniform Push { ChannelSumsParams p; };
READ_BUFFER(uvec4, step_block, CHANNEL_SUMS_STEP);
READ_BUFFER(vec4, shares, CHANNEL_SUMS_SHARES);
READ_BUFFER(vec4, value, CHANNEL_SUMS_VALUE);
WRITE_BUFFER(vec4, result, CHANNEL_SUMS_RESULT);

void main() {
  const uint row = gl_WorkGroupID.x;
  if (row >= step_block[0][ROWS_OUTPUTS]) return;
  const uint quads = p.channels >> 2, all = p.pixels * quads;
  const uint index = (gl_WorkGroupID.z * p.groups + gl_WorkGroupID.y) * gl_WorkGroupSize.x + gl_LocalInvocationID.x;
  if (index >= (all + 7u) / 8u * 8u) return;
  vec4 v = vec4(0.0);
  if (index < all) {
    const uint quad = index % quads, group = quad / GROUP_QUADS;
    const uint from = row * (p.value_stride >> 2) + index / quads * quads + group * GROUP_QUADS;
    const uint share = (row * p.channels + quad * 4u) * GROUP_QUADS;
    for (uint i = 0; i < GROUP_QUADS; ++i) {
      const vec4 values = value[from + i];
      for (uint j = 0; j < 4u; ++j) v[j] += dot(shares[share + j * GROUP_QUADS + i], values);
    }
  }
  result[row * (p.out_stride >> 2) + index] = v;
}
