#version 460
// Four channels of one pixel to an invocation.
// variant: -
#extension GL_GOOGLE_include_directive : require
#include "common/types.glsl"
#include "convolution/pool_pixels.params.h"

layout(local_size_x_id = 0) in;
layout(constant_id = POOL_PIXELS_MEAN_ID) const uint MEAN = 0;
layout(push_constant) uniform Push { PoolPixelsParams p; };
READ_BUFFER(uvec4, step_block, POOL_PIXELS_STEP);
READ_BUFFER(vec4, x, POOL_PIXELS_X);
WRITE_BUFFER(vec4, result, POOL_PIXELS_RESULT);

vec4 pooled(uint pixel, uint quad) {
  const uint quads = p.channels / 4u, from = gl_WorkGroupID.x * (p.x_stride >> 2) + quad;
  vec4 v = vec4(MEAN != 0u ? 0.0 : -3.4e38);
  uint count = 0u;
  for (uint i = 0; i < p.window_height * p.window_width; ++i) {
    const uint y = pixel / p.out_width * p.stride + i / p.window_width - p.padding; // before the first it wraps round
    const uint across = pixel % p.out_width * p.stride + i % p.window_width - p.padding;
    if (y >= p.height || across >= p.width) continue;
    const vec4 one = x[from + (y * p.width + across) * quads];
    v = MEAN != 0u ? v + one : max(v, one);
    ++count;
  }
  return MEAN != 0u ? v / float(max(count, 1u)) : v;
}

void main() {
  if (gl_WorkGroupID.x >= step_block[0][ROWS_OUTPUTS]) return;
  const uint quads = p.channels / 4u, all = p.out_height * p.out_width * quads;
  const uint index = gl_GlobalInvocationID.y * gl_WorkGroupSize.x + gl_LocalInvocationID.x;
  if (index >= (all + 7u) / 8u * 8u) return; // with the zeros that end a row
  const uint to = gl_WorkGroupID.x * (p.out_stride >> 2) + index;
  result[to] = index < all ? pooled(index / quads, index % quads) : vec4(0.0);
}
