// The frames of sounds, or pixels of pictures, which lie in one row each, become rows of the step. Rows behind them
// may come from another tensor.
#ifndef PUMICE_FRAME_ROWS_PARAMS_H
#define PUMICE_FRAME_ROWS_PARAMS_H
#include "common/shared.h"

PUMICE_PARAMS_BEGIN

// Buffers.
CONSTANT FRAME_ROWS_STEP = 0;
CONSTANT FRAME_ROWS_X = 1;      // [outputs, x_stride]: frame after frame
CONSTANT FRAME_ROWS_RESULT = 2; // [tokens, out_stride]
CONSTANT FRAME_ROWS_REST = 3;   // [tokens, rest_stride]

// Specialisation constants. 0 is the workgroup's size.
CONSTANT FRAME_ROWS_HAS_REST_ID = 1; // 0 or 1

struct FrameRowsParams {
  UINT columns; // a multiple of 4
  UINT frames;
  UINT x_stride; // in floats
  UINT out_stride;
  UINT rest_stride;
};

PUMICE_PARAMS_END

#ifdef __cplusplus
static_assert(sizeof(pumice::FrameRowsParams) == 20);
#endif
#endif
