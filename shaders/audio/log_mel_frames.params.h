// The logarithm to base 10 of each frame's energy in each band of the mel scale. The rows of the step are
// frames, `frames` of each input, one input after the other.
//
// The Fourier transform of a frame's `size` samples is made in two stages of `parts` and of size / parts
// terms (Cooley and Tukey, An Algorithm for the Machine Calculation of Complex Fourier Series, 1965): with
// sample each * a + b, each = size / parts, frequency k is
//   sum over b of twiddle(b * k) * (sum over a of twiddle(a * k * each) * sample(each * a + b)),
// where twiddle(j) = exp(-2 pi i j / size). The inner sums are the same for all k with the same remainder by
// `parts`, and conjugate for k and -k.
#ifndef PUMICE_LOG_MEL_FRAMES_PARAMS_H
#define PUMICE_LOG_MEL_FRAMES_PARAMS_H
#include "common/shared.h"

PUMICE_PARAMS_BEGIN

// Buffers.
CONSTANT LOG_MEL_FRAMES_STEP = 0;
CONSTANT LOG_MEL_FRAMES_SAMPLES = 1;  // [outputs, samples_stride]
CONSTANT LOG_MEL_FRAMES_TWIDDLES = 2; // [size]: (cos, sin) of -2 pi j / size
CONSTANT LOG_MEL_FRAMES_WINDOW = 3;   // [size]
CONSTANT LOG_MEL_FRAMES_BANDS =
    4; // [mels]: the first frequency whose weight is not zero and the one after the last
CONSTANT LOG_MEL_FRAMES_FILTERS = 5; // [mels, size / 2 + 1]: weights of the frequencies
CONSTANT LOG_MEL_FRAMES_RESULT = 6;  // [tokens, out_stride]

// Specialisation constants. 0 is the workgroup's size.
CONSTANT LOG_MEL_FRAMES_SIZE_ID = 1;  // samples of a frame, even
CONSTANT LOG_MEL_FRAMES_PARTS_ID = 2; // divides it

struct LogMelFramesParams {
  UINT samples;        // of an input
  UINT samples_stride; // in floats
  UINT out_stride;
  UINT frames; // of an input
  UINT hop;    // samples from a frame to the next one
  UINT mels;
};

PUMICE_PARAMS_END

#ifdef __cplusplus
static_assert(sizeof(pumice::LogMelFramesParams) == 24);
#endif
#endif
