// The largest or the mean of each window of a picture's pixels, channel by channel.
#ifndef PUMICE_POOL_PIXELS_PARAMS_H
#define PUMICE_POOL_PIXELS_PARAMS_H
#include "common/shared.h"

PUMICE_PARAMS_BEGIN

// Buffers.
CONSTANT POOL_PIXELS_STEP = 0;
CONSTANT POOL_PIXELS_X = 1;      // [outputs, x_stride]: pixel after pixel
CONSTANT POOL_PIXELS_RESULT = 2; // [outputs, out_stride], likewise

// Specialisation constants. 0 is the workgroup's size.
CONSTANT POOL_PIXELS_MEAN_ID = 1; // 1: the mean, 0: the largest

struct PoolPixelsParams {
  UINT channels; // a multiple of 4
  UINT height;
  UINT width;
  UINT out_height;
  UINT out_width;
  UINT window_height;
  UINT window_width;
  UINT stride;
  UINT padding; // of pixels that do not count
  UINT x_stride;
  UINT out_stride;
};

PUMICE_PARAMS_END

#ifdef __cplusplus
static_assert(sizeof(pumice::PoolPixelsParams) == 44);
#endif
#endif
