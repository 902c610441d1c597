// One row of each input, for each output of the step.
#ifndef PUMICE_PICK_ROWS_PARAMS_H
#define PUMICE_PICK_ROWS_PARAMS_H
#include "common/shared.h"

PUMICE_PARAMS_BEGIN

// Buffers.
CONSTANT PICK_ROWS_STEP = 0;
CONSTANT PICK_ROWS_X = 1;      // [tokens, x_stride]
CONSTANT PICK_ROWS_RESULT = 2; // [outputs, out_stride]

// Specialisation constants. 0 is the workgroup's size.
CONSTANT PICK_ROWS_RULE_ID = 1; // one of these

CONSTANT PICK_ROWS_LAST = 0;
CONSTANT PICK_ROWS_FIRST = 1;    // the first of a token, or else the last
CONSTANT PICK_ROWS_LARGEST = 2;  // the first of the token with the largest number
CONSTANT PICK_ROWS_NUMBERED = 3; // the one with `token` rows before it, or else the last

struct PickRowsParams {
  UINT columns;
  UINT x_stride; // in floats
  UINT out_stride;
  UINT capacity; // rows that fit the step block
  UINT token;
};

PUMICE_PARAMS_END

#ifdef __cplusplus
static_assert(sizeof(pumice::PickRowsParams) == 20);
#endif
#endif
