// Each channel of a sound, or all of them together, normalised over its frames.
#ifndef PUMICE_NORM_FRAMES_PARAMS_H
#define PUMICE_NORM_FRAMES_PARAMS_H
#include "common/shared.h"

PUMICE_PARAMS_BEGIN

// Buffers.
CONSTANT NORM_FRAMES_STEP = 0;
CONSTANT NORM_FRAMES_X = 1;      // [outputs, x_stride]: frame after frame
CONSTANT NORM_FRAMES_WEIGHT = 2; // [channels]
CONSTANT NORM_FRAMES_BIAS = 3;   // [channels]
CONSTANT NORM_FRAMES_RESULT = 4; // [outputs, out_stride], likewise

// Specialisation constants. 0 is the workgroup's size.
CONSTANT NORM_FRAMES_ACTIVATION_ID = 1; // ACTIVATION_*
CONSTANT NORM_FRAMES_WHOLE_ID = 2;      // 1: all channels together
CONSTANT NORM_FRAMES_SPECTRUM_ID = 3;   // 1: of logarithms, with eps and an unbiased variance as NeMo has them
CONSTANT NORM_FRAMES_SO_FAR_ID = 4;     // 1: with whole, of the frames up to each one

struct NormFramesParams {
  UINT channels; // a multiple of 4
  UINT frames;   // that there is room for
  UINT x_stride;
  UINT out_stride;
  UINT capacity;     // rows that fit the step block
  UINT sound_first;  // samples that the first frame is made of
  UINT sound_stride; // samples from one frame to the next
  float eps;
  float least; // added to numbers whose logarithm is taken
};

PUMICE_PARAMS_END

#ifdef __cplusplus
static_assert(sizeof(pumice::NormFramesParams) == 36);
#endif
#endif
