// The embeddings of a step, of which the host gives some.
#ifndef PUMICE_GIVEN_ROWS_PARAMS_H
#define PUMICE_GIVEN_ROWS_PARAMS_H
#include "common/shared.h"

PUMICE_PARAMS_BEGIN

// A token with this bit is none of the vocabulary: its row is given.
CONSTANT GIVEN_ROW = 0x80000000u;

// Buffers.
CONSTANT GIVEN_ROWS_STEP = 0;
CONSTANT GIVEN_ROWS_X = 1;      // [tokens, x_stride]
CONSTANT GIVEN_ROWS_GIVEN = 2;  // [tokens, given_stride]
CONSTANT GIVEN_ROWS_RESULT = 3; // [tokens, out_stride]

// Specialisation constant 0 is the workgroup's size.

struct GivenRowsParams {
  UINT columns;
  UINT x_stride; // in floats
  UINT given_stride;
  UINT out_stride;
};

PUMICE_PARAMS_END

#ifdef __cplusplus
static_assert(sizeof(pumice::GivenRowsParams) == 16);
#endif
#endif
