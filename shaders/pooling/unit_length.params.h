// result = x / max(|x|, 1e-12), each row by its own length.
#ifndef PUMICE_UNIT_LENGTH_PARAMS_H
#define PUMICE_UNIT_LENGTH_PARAMS_H
#include "common/shared.h"

PUMICE_PARAMS_BEGIN

// Buffers.
CONSTANT UNIT_LENGTH_STEP = 0;
CONSTANT UNIT_LENGTH_X = 1;      // [rows, x_stride]
CONSTANT UNIT_LENGTH_RESULT = 2; // [rows, out_stride]

// Specialisation constant 0 is the workgroup's size.

struct UnitLengthParams {
  UINT columns;
  UINT x_stride; // in floats
  UINT out_stride;
  UINT rows_kind; // ROWS_*
};

PUMICE_PARAMS_END

#ifdef __cplusplus
static_assert(sizeof(pumice::UnitLengthParams) == 16);
#endif
#endif
