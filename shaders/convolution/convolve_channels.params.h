// A convolution of each channel of pictures by itself, of stride 1, with as many pixels as there were.
#ifndef PUMICE_CONVOLVE_CHANNELS_PARAMS_H
#define PUMICE_CONVOLVE_CHANNELS_PARAMS_H
#include "common/shared.h"

PUMICE_PARAMS_BEGIN

// Buffers.
CONSTANT CONVOLVE_CHANNELS_STEP = 0;
CONSTANT CONVOLVE_CHANNELS_X = 1;      // [outputs, x_stride]: pixel after pixel
CONSTANT CONVOLVE_CHANNELS_WEIGHT = 2; // [kernel * kernel, channels]
CONSTANT CONVOLVE_CHANNELS_BIAS = 3;   // [channels]
CONSTANT CONVOLVE_CHANNELS_RESULT = 4; // [outputs, out_stride], as x

// Specialisation constant 0 is the workgroup's size.

struct ConvolveChannelsParams {
  UINT channels; // a multiple of 4
  UINT height;
  UINT width;
  UINT kernel;   // pixels on each side, odd
  UINT x_stride; // in floats
  UINT out_stride;
  UINT groups; // workgroups of a row, before its next layer of them
};

PUMICE_PARAMS_END

#ifdef __cplusplus
static_assert(sizeof(pumice::ConvolveChannelsParams) == 28);
#endif
#endif
