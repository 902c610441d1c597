#version 460
// A workgroup to a frame.
// variant: -
#extension GL_GOOGLE_include_directive : require
#include "audio/log_mel_frames.params.h"
#include "common/types.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = LOG_MEL_FRAMES_SIZE_ID) const uint SIZE = 400;
layout(constant_id = LOG_MEL_FRAMES_PARTS_ID) const uint PARTS = 20;
layout(push_constant) uniform Push { LogMelFramesParams p; };
READ_BUFFER(uvec4, step_block, LOG_MEL_FRAMES_STEP);
READ_BUFFER(float, samples, LOG_MEL_FRAMES_SAMPLES);
READ_BUFFER(vec2, twiddles, LOG_MEL_FRAMES_TWIDDLES);
READ_BUFFER(float, window, LOG_MEL_FRAMES_WINDOW);
READ_BUFFER(uvec2, bands, LOG_MEL_FRAMES_BANDS);
READ_BUFFER(float, filters, LOG_MEL_FRAMES_FILTERS);
WRITE_BUFFER(float, result, LOG_MEL_FRAMES_RESULT);

const uint EACH = SIZE / PARTS;
const uint KEPT = PARTS / 2 + 1; // remainders; the others' sums are conjugate to theirs
const uint BINS = SIZE / 2 + 1;
shared float values[SIZE]; // the frame, then its power spectrum
shared vec2 inner[KEPT * EACH];

// The frame around sample `center`, windowed; samples before the first and after the last are reflected.
void load_frame(uint from, uint center) {
  for (uint i = gl_LocalInvocationID.x; i < SIZE; i += gl_WorkGroupSize.x) {
    int at = abs(int(center + i) - int(SIZE / 2));
    at = min(at, 2 * int(p.samples - 1u) - at);
    values[i] = samples[from + uint(at)] * window[i];
  }
}

void transform_columns() {
  for (uint i = gl_LocalInvocationID.x; i < KEPT * EACH; i += gl_WorkGroupSize.x) {
    const uint remainder = i / EACH, b = i % EACH;
    vec2 sum = vec2(0.0);
    for (uint a = 0, twiddle = 0; a < PARTS; ++a) {
      sum += values[EACH * a + b] * twiddles[twiddle * EACH];
      twiddle += remainder;
      if (twiddle >= PARTS) twiddle -= PARTS;
    }
    inner[i] = sum;
  }
}

void power_spectrum() {
  for (uint k = gl_LocalInvocationID.x; k < BINS; k += gl_WorkGroupSize.x) {
    const uint remainder = k % PARTS;
    const bool conjugate = remainder >= KEPT;
    const uint first = (conjugate ? PARTS - remainder : remainder) * EACH;
    vec2 sum = vec2(0.0);
    for (uint b = 0, twiddle = 0; b < EACH; ++b) {
      vec2 v = inner[first + b];
      if (conjugate) v.y = -v.y;
      const vec2 t = twiddles[twiddle];
      sum += vec2(v.x * t.x - v.y * t.y, v.x * t.y + v.y * t.x);
      twiddle += k;
      if (twiddle >= SIZE) twiddle -= SIZE;
    }
    values[k] = dot(sum, sum);
  }
}

float log_energy(uint mel) {
  const uvec2 band = bands[mel];
  float sum = 0.0;
  for (uint k = band.x; k < band.y; ++k) sum += filters[mel * BINS + k] * values[k];
  return log2(max(sum, 1e-10)) * 0.30102999566398120;
}

void main() {
  const uint row = gl_WorkGroupID.x;
  if (row >= step_block[0][ROWS_TOKENS]) return;
  load_frame(row / p.frames * p.samples_stride, row % p.frames * p.hop);
  barrier();
  transform_columns();
  barrier();
  power_spectrum();
  barrier();
  for (uint mel = gl_LocalInvocationID.x; mel < (p.mels + 31u) / 32u * 32u; mel += gl_WorkGroupSize.x) {
    result[row * p.out_stride + mel] = mel < p.mels ? log_energy(mel) : 0.0;
  }
}
