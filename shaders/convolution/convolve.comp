#version 460
// An invocation makes four channels of four neighbouring pixels: each weight that it loads serves four pixels. Its sums go
// over the taps in order, so that their bits depend on neither the other pixels nor the other inputs.
// variant: -
#extension GL_GOOGLE_include_directive : require
#include "common/activation.glsl"
#include "common/types.glsl"
#include "convolution/convolve.params.h"

layout(local_size_x_id = 0) in;
layout(constant_id = CONVOLVE_ACTIVATION_ID) const uint ACTIVATION = 0;
layout(constant_id = CONVOLVE_HAS_BIAS_ID) const uint HAS_BIAS = 0;
layout(constant_id = CONVOLVE_BY_FOURS_ID) const uint BY_FOURS = 0;
layout(constant_id = CONVOLVE_BY_TOKENS_ID) const uint BY_TOKENS = 0;
layout(constant_id = CONVOLVE_RULE_ID) const uint RULE = CONVOLVE_AS_THEY_ARE;
layout(push_constant) uniform Push { ConvolveParams p; };
READ_BUFFER(uvec4, step_block, CONVOLVE_STEP);
layout(set = 0, binding = CONVOLVE_X, std430) readonly buffer x_buffer { float x[]; };
layout(set = 0, binding = CONVOLVE_X, std430) readonly buffer x_quads_buffer { vec4 x_quads[]; };
READ_BUFFER(vec4, weight, CONVOLVE_WEIGHT);
READ_BUFFER(vec4, bias, CONVOLVE_BIAS);
WRITE_BUFFER(vec4, result, CONVOLVE_RESULT);

#include "pooling/input_rows.glsl"

// The frames of so many samples.
uint frames_of(uint samples, uint first, uint stride) {
  return samples < first ? 0u : (samples - first) / stride + 1u;
}

void main() {
  const uint input_row = gl_WorkGroupID.x;
  if (input_row >= step_block[0][ROWS_OUTPUTS]) return;
  const uvec4 detail = step_block[STEP_HEADER_QUADS + p.capacity + input_row];
  const uint first = BY_TOKENS != 0u ? detail.x : input_row;
  uint height = BY_TOKENS != 0u ? rows_from(first) : p.height;
  uint pixels = BY_TOKENS != 0u ? height : p.out_height * p.out_width;
  if (p.sound_first != 0u) pixels = min(pixels, frames_of(detail.y, p.sound_first, p.sound_stride) * p.out_width);
  if (p.x_sound_first != 0u) height = min(height, frames_of(detail.y, p.x_sound_first, p.x_sound_stride));

  const uint quads = p.out_channels / 4u;
  const uint index = (gl_WorkGroupID.z * p.columns_groups + gl_WorkGroupID.y) * gl_WorkGroupSize.x + gl_LocalInvocationID.x;
  const uint quad = index % quads, pixel = index / quads * CONVOLVE_PIXELS;
  if (pixel >= pixels) return;
  const uint first_channel = quad * 4u / p.group_channels * p.channels;
  const uint from = first * p.row_stride + first_channel * p.channel_stride;

  vec4 sum[CONVOLVE_PIXELS];
  [[unroll]] for (uint i = 0; i < CONVOLVE_PIXELS; ++i) sum[i] = HAS_BIAS != 0u ? bias[quad] : vec4(0.0);
  uint at = quad; // in weight
  for (uint tap = 0; tap < p.kernel_height * p.kernel_width; ++tap) {
    const uint down = tap / p.kernel_width, right = tap % p.kernel_width;
    uint place[CONVOLVE_PIXELS];
    float exists[CONVOLVE_PIXELS];
    [[unroll]] for (uint i = 0; i < CONVOLVE_PIXELS; ++i) {
      const uint y = (pixel + i) / p.out_width * p.stride + down - p.padding; // before the first it wraps round
      const uint across = (pixel + i) % p.out_width * p.stride + right - p.padding_across;
      const bool inside = y < height && across < p.width;
      place[i] = from + (inside ? (y * p.width + across) * p.pixel_stride : 0u);
      exists[i] = inside ? 1.0 : 0.0;
    }
    if (BY_FOURS != 0u) {
      for (uint channel = 0; channel < p.channels; channel += 4u) {
        const vec4 a = weight[at], b = weight[at + quads], c = weight[at + 2u * quads], d = weight[at + 3u * quads];
        [[unroll]] for (uint i = 0; i < CONVOLVE_PIXELS; ++i) {
          const vec4 v = exists[i] * x_quads[(place[i] + channel) >> 2];
          sum[i] += v.x * a;
          sum[i] += v.y * b;
          sum[i] += v.z * c;
          sum[i] += v.w * d;
        }
        at += 4u * quads;
      }
    } else {
      for (uint channel = 0; channel < p.channels; ++channel) {
        const vec4 a = weight[at];
        [[unroll]] for (uint i = 0; i < CONVOLVE_PIXELS; ++i) sum[i] += exists[i] * x[place[i] + channel * p.channel_stride] * a;
        at += quads;
      }
    }
  }
  const uint to = first * p.out_row_stride + pixel * p.out_pixel_stride;
  [[unroll]] for (uint i = 0; i < CONVOLVE_PIXELS; ++i) {
    if (RULE == CONVOLVE_ROOTS) sum[i] = sqrt(sum[i]);
    if (RULE == CONVOLVE_LOGARITHMS) sum[i] = log(max(sum[i], p.least));
    [[unroll]] for (uint j = 0; j < 4u; ++j) sum[i][j] = activate(ACTIVATION, sum[i][j]);
    if (pixel + i < pixels) result[((to + i * p.out_pixel_stride) >> 2) + quad] = sum[i];
  }
}
