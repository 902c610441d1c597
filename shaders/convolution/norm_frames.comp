#version 460
// A workgroup to four channels of a sound, or to all. The variance is summed around the mean in a second pass, as in norm.comp.
// variant: -
#extension GL_GOOGLE_include_directive : require
#include "common/activation.glsl"
#include "common/types.glsl"
#include "convolution/norm_frames.params.h"

layout(local_size_x_id = 0) in;
layout(constant_id = NORM_FRAMES_ACTIVATION_ID) const uint ACTIVATION = 0;
layout(constant_id = NORM_FRAMES_WHOLE_ID) const uint WHOLE = 0;
layout(constant_id = NORM_FRAMES_SPECTRUM_ID) const uint SPECTRUM = 0;
layout(constant_id = NORM_FRAMES_SO_FAR_ID) const uint SO_FAR = 0;
layout(push_constant) uniform Push { NormFramesParams p; };
READ_BUFFER(uvec4, step_block, NORM_FRAMES_STEP);
READ_BUFFER(vec4, x, NORM_FRAMES_X);
READ_BUFFER(vec4, weight, NORM_FRAMES_WEIGHT);
READ_BUFFER(vec4, bias, NORM_FRAMES_BIAS);
WRITE_BUFFER(vec4, result, NORM_FRAMES_RESULT);

#include "common/reduce.glsl"

vec4 load(uint at) {
  return SPECTRUM != 0u ? log(x[at] + p.least) : x[at];
}

// The mean of each channel's numbers in `frames`, or of all channels', of the invocations' sums.
vec4 workgroup_means(vec4 v, uint frames) {
  const float count = float(max(frames, 1u));
  if (WHOLE != 0u) return vec4(workgroup_sum(v.x + v.y + v.z + v.w) / (count * float(p.channels)));
  return vec4(workgroup_sum(v.x), workgroup_sum(v.y), workgroup_sum(v.z), workgroup_sum(v.w)) / count;
}

vec4 activated(vec4 v) {
  [[unroll]] for (uint j = 0; j < 4u; ++j) v[j] = activate(ACTIVATION, v[j]);
  return v;
}

// Frame after frame: what squares were added of earlier ones is around the means that these had.
void norm_so_far(uint from, uint to, uint frames, uint quads) {
  float total = 0.0, squares = 0.0;
  for (uint frame = 0; frame < frames; ++frame) {
    const float count = float(frame + 1u) * float(p.channels);
    vec4 sum = vec4(0.0);
    for (uint i = gl_LocalInvocationID.x; i < quads; i += gl_WorkGroupSize.x) sum += x[from + frame * quads + i];
    total += workgroup_sum(sum.x + sum.y + sum.z + sum.w);
    const float mean = total / count;
    float own = 0.0;
    for (uint i = gl_LocalInvocationID.x; i < quads; i += gl_WorkGroupSize.x) {
      const vec4 v = x[from + frame * quads + i] - mean;
      own += dot(v, v);
    }
    squares += workgroup_sum(own);
    const float deviation = sqrt(squares / count + p.eps);
    for (uint i = gl_LocalInvocationID.x; i < quads; i += gl_WorkGroupSize.x) {
      const vec4 v = x[from + frame * quads + i] - mean;
      result[to + frame * quads + i] = activated(v * (weight[i] / deviation) + bias[i]);
    }
  }
}

void main() {
  const uint row = gl_WorkGroupID.x, quad = gl_WorkGroupID.y, quads = p.channels / 4u;
  if (row >= step_block[0][ROWS_OUTPUTS]) return;
  const uint samples = step_block[STEP_HEADER_QUADS + p.capacity + row].y;
  const uint frames = samples < p.sound_first ? 0u : min(p.frames, (samples - p.sound_first) / p.sound_stride + 1u);
  const uint from = row * (p.x_stride >> 2) + quad, to = row * (p.out_stride >> 2) + quad;
  if (SO_FAR != 0u) {
    norm_so_far(from, to, frames, quads);
    return;
  }
  const uint count = WHOLE != 0u ? frames * quads : frames, apart = WHOLE != 0u ? 1u : quads;
  vec4 sum = vec4(0.0);
  for (uint i = gl_LocalInvocationID.x; i < count; i += gl_WorkGroupSize.x) sum += load(from + i * apart);
  const vec4 mean = workgroup_means(sum, frames);
  vec4 squares = vec4(0.0);
  for (uint i = gl_LocalInvocationID.x; i < count; i += gl_WorkGroupSize.x) {
    const vec4 v = load(from + i * apart) - mean;
    squares += v * v;
  }
  const vec4 deviation = SPECTRUM != 0u ? sqrt(workgroup_means(squares, max(frames, 2u) - 1u)) + p.eps
                                        : sqrt(workgroup_means(squares, frames) + p.eps);
  for (uint i = gl_LocalInvocationID.x; i < count; i += gl_WorkGroupSize.x) {
    const uint channels = WHOLE != 0u ? i % quads : quad;
    result[to + i * apart] = activated((load(from + i * apart) - mean) * (weight[channels] / deviation) + bias[channels]);
  }
}
