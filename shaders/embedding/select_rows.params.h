// result[i] = x[the row that output i of the step names].
#ifndef PUMICE_SELECT_ROWS_PARAMS_H
#define PUMICE_SELECT_ROWS_PARAMS_H
#include "common/shared.h"

PUMICE_PARAMS_BEGIN

// Buffers.
CONSTANT SELECT_STEP = 0;
CONSTANT SELECT_X = 1;      // [tokens, x_stride]
CONSTANT SELECT_RESULT = 2; // [outputs, out_stride]

// Specialisation constant 0 is the workgroup's size.

struct SelectRowsParams {
  UINT columns;
  UINT x_stride;   // in floats
  UINT out_stride; // in floats
  UINT capacity;   // rows that fit the step block
};

PUMICE_PARAMS_END

#ifdef __cplusplus
static_assert(sizeof(pumice::SelectRowsParams) == 16);
#endif
#endif
