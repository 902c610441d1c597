#version 460
// An invocation makes four channels of four frames that lie `up` apart and so have the same taps: each weight that it loads
// serves four frames. Its sums go over the taps in order, so that their bits do not depend on where an input begins.
// variant: -
#extension GL_GOOGLE_include_directive : require
#include "common/activation.glsl"
#include "common/types.glsl"
#include "convolution/convolve_frames.params.h"

layout(local_size_x_id = 0) in;
layout(constant_id = CONVOLVE_FRAMES_ACTIVATION_ID) const uint ACTIVATION = 0;
layout(constant_id = CONVOLVE_FRAMES_BY_FOURS_ID) const uint BY_FOURS = 1;
layout(push_constant) uniform Push { ConvolveFramesParams p; };
READ_BUFFER(uvec4, step_block, CONVOLVE_FRAMES_STEP);
READ_BUFFER(vec4, x, CONVOLVE_FRAMES_X);
READ_BUFFER(vec4, weight, CONVOLVE_FRAMES_WEIGHT);
READ_BUFFER(vec4, bias, CONVOLVE_FRAMES_BIAS);
layout(set = 0, binding = CONVOLVE_FRAMES_RESULT, std430) writeonly buffer result_buffer { float result[]; };
layout(set = 0, binding = CONVOLVE_FRAMES_RESULT, std430) writeonly buffer result_quads_buffer { vec4 result_quads[]; };

#include "pooling/input_rows.glsl"

uint frames_of(uint rows, uint rate, uint lacking) {
  const uint all = rows / p.rows * rate;
  return all > lacking ? all - lacking : 0u;
}

void main() {
  const uint input_row = gl_WorkGroupID.x;
  if (input_row >= step_block[0][ROWS_OUTPUTS]) return;
  const uint first = step_block[STEP_HEADER_QUADS + p.capacity + input_row].x;
  const uint rows = rows_from(first);
  const uint x_frames = frames_of(rows, p.x_rate, p.x_short), frames = frames_of(rows, p.out_rate, p.out_short);

  const uint index = (gl_WorkGroupID.z * p.columns_groups + gl_WorkGroupID.y) * gl_WorkGroupSize.x + gl_LocalInvocationID.x;
  const uint quad = index % p.quads, rest = index / p.quads;
  const uint phase = rest % p.up, group = rest / p.up * CONVOLVE_FRAMES_GROUP;
  if (group * p.up + phase >= frames) return;
  const uint shifted = phase + p.begin;
  uint source = group * p.stride + shifted / p.up - p.before; // before the first it wraps round

  vec4 sum[CONVOLVE_FRAMES_GROUP];
  [[unroll]] for (uint i = 0; i < CONVOLVE_FRAMES_GROUP; ++i) sum[i] = bias[quad];
  // Frames outside are the first one times zero: where there is none, nobody wrote it.
  const uint taps = x_frames > 0u ? p.taps : 0u;
  for (uint tap = shifted % p.up; tap < taps; tap += p.up) {
    uint place[CONVOLVE_FRAMES_GROUP];
    float exists[CONVOLVE_FRAMES_GROUP];
    [[unroll]] for (uint i = 0; i < CONVOLVE_FRAMES_GROUP; ++i) {
      const uint frame = source + i * p.stride;
      const bool inside = frame < x_frames;
      place[i] = (first * p.row_stride + (inside ? frame * p.frame_stride : 0u)) >> 2;
      exists[i] = inside ? 1.0 : 0.0;
    }
    uint at = tap * p.channels * p.quads + quad;
    for (uint channels = 0; channels < p.channels / 4u; ++channels) {
      const vec4 a = weight[at], b = weight[at + p.quads], c = weight[at + 2u * p.quads], d = weight[at + 3u * p.quads];
      [[unroll]] for (uint i = 0; i < CONVOLVE_FRAMES_GROUP; ++i) {
        const vec4 v = exists[i] * x[place[i] + channels];
        sum[i] += v.x * a;
        sum[i] += v.y * b;
        sum[i] += v.z * c;
        sum[i] += v.w * d;
      }
      at += 4u * p.quads;
    }
    source += p.jump;
  }
  [[unroll]] for (uint i = 0; i < CONVOLVE_FRAMES_GROUP; ++i) {
    const uint frame = (group + i) * p.up + phase;
    if (frame >= frames) break;
    [[unroll]] for (uint j = 0; j < 4u; ++j) sum[i][j] = activate(ACTIVATION, sum[i][j]);
    const uint to = first * p.out_row_stride + frame * p.out_channels + 4u * quad;
    if (BY_FOURS != 0u) {
      result_quads[to >> 2] = sum[i];
    } else {
      for (uint j = 0; j < min(p.out_channels - 4u * quad, 4u); ++j) result[to + j] = sum[i][j];
    }
  }
}
