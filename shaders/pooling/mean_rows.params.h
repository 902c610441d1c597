// The mean over an input's rows, or of each column the largest number, for each output of the step.
#ifndef PUMICE_MEAN_ROWS_PARAMS_H
#define PUMICE_MEAN_ROWS_PARAMS_H
#include "common/shared.h"

PUMICE_PARAMS_BEGIN

// Buffers.
CONSTANT MEAN_ROWS_STEP = 0;
CONSTANT MEAN_ROWS_X = 1;      // [tokens, x_stride]
CONSTANT MEAN_ROWS_RESULT = 2; // [outputs, out_stride]

// Specialisation constants. 0 is the workgroup's size.
CONSTANT MEAN_ROWS_LARGEST_ID = 1; // 1: the largest number, at least 0, in place of the mean

struct MeanRowsParams {
  UINT columns;
  UINT x_stride; // in floats
  UINT out_stride;
  UINT capacity; // rows that fit the step block
};

PUMICE_PARAMS_END

#ifdef __cplusplus
static_assert(sizeof(pumice::MeanRowsParams) == 16);
#endif
#endif
