// Rows that the weights of a convolution over the host's features are multiplied with.
#ifndef PUMICE_FRAME_WINDOWS_PARAMS_H
#define PUMICE_FRAME_WINDOWS_PARAMS_H
#include "common/shared.h"

PUMICE_PARAMS_BEGIN

// Buffers.
CONSTANT FRAME_WINDOWS_STEP = 0;
CONSTANT FRAME_WINDOWS_FEATURES = 1; // [outputs, features_stride]: channel after channel
CONSTANT FRAME_WINDOWS_RESULT = 2;   // [tokens, out_stride]

// Specialisation constant 0 is the workgroup's size.

struct FrameWindowsParams {
  UINT columns;         // channels * taps
  UINT features_stride; // in floats
  UINT out_stride;
  UINT frames;
  UINT taps;   // frames that a window spans
  UINT stride; // frames from a row's window to the next one's
  UINT first;  // where the first window begins, two's complement
};

PUMICE_PARAMS_END

#ifdef __cplusplus
static_assert(sizeof(pumice::FrameWindowsParams) == 28);
#endif
#endif
