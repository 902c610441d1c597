#version 460
// An invocation makes four channels of one pixel, and the zeros that end a row.
// variant: -
#extension GL_GOOGLE_include_directive : require
#include "common/types.glsl"
#include "convolution/convolve_channels.params.h"

layout(local_size_x_id = 0) in;
layout(push_constant) uniform Push { ConvolveChannelsParams p; };
READ_BUFFER(uvec4, step_block, CONVOLVE_CHANNELS_STEP);
READ_BUFFER(vec4, x, CONVOLVE_CHANNELS_X);
READ_BUFFER(vec4, weight, CONVOLVE_CHANNELS_WEIGHT);
READ_BUFFER(vec4, bias, CONVOLVE_CHANNELS_BIAS);
WRITE_BUFFER(vec4, result, CONVOLVE_CHANNELS_RESULT);

void main() {
  const uint row = gl_WorkGroupID.x;
  if (row >= step_block[0][ROWS_OUTPUTS]) return;
  const uint quads = p.channels / 4u, all = p.height * p.width * quads;
  const uint index = (gl_WorkGroupID.z * p.groups + gl_WorkGroupID.y) * gl_WorkGroupSize.x + gl_LocalInvocationID.x;
  if (index >= (all + 7u) / 8u * 8u) return;
  vec4 v = vec4(0.0);
  if (index < all) {
    const uint pixel = index / quads, quad = index % quads, from = row * (p.x_stride >> 2) + quad;
    v = bias[quad];
    for (uint tap = 0; tap < p.kernel * p.kernel; ++tap) {
      const uint y = pixel / p.width + tap / p.kernel - p.kernel / 2u; // before the first it wraps round
      const uint across = pixel % p.width + tap % p.kernel - p.kernel / 2u;
      if (y < p.height && across < p.width) v += x[from + (y * p.width + across) * quads] * weight[tap * quads + quad];
    }
  }
  result[row * (p.out_stride >> 2) + index] = v;
}
