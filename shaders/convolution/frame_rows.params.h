// The frames of sounds, which lie in one row each, become rows of the step.
#ifndef PUMICE_FRAME_ROWS_PARAMS_H
#define PUMICE_FRAME_ROWS_PARAMS_H
#include "common/shared.h"

PUMICE_PARAMS_BEGIN

// Buffers.
CONSTANT FRAME_ROWS_STEP = 0;
CONSTANT FRAME_ROWS_X = 1;      // [outputs, x_stride]: frame after frame
CONSTANT FRAME_ROWS_RESULT = 2; // [tokens, out_stride]

// Specialisation constant 0 is the workgroup's size.

struct FrameRowsParams {
  UINT columns; // a multiple of 4
  UINT frames;
  UINT x_stride; // in floats
  UINT out_stride;
};

PUMICE_PARAMS_END

#ifdef __cplusplus
static_assert(sizeof(pumice::FrameRowsParams) == 16);
#endif
#endif
