// result = x, and in one row of each input the weight in its place.
#ifndef PUMICE_LEAD_TOKEN_PARAMS_H
#define PUMICE_LEAD_TOKEN_PARAMS_H
#include "common/shared.h"

PUMICE_PARAMS_BEGIN

// Buffers.
CONSTANT LEAD_TOKEN_STEP = 0;
CONSTANT LEAD_TOKEN_X = 1;      // [tokens, x_stride]
CONSTANT LEAD_TOKEN_WEIGHT = 2; // [columns], padded to a multiple of 32
CONSTANT LEAD_TOKEN_RESULT = 3; // [tokens, out_stride]

// Specialisation constant 0 is the workgroup's size.

struct LeadTokenParams {
  UINT columns;
  UINT x_stride; // in floats
  UINT out_stride;
  UINT row; // of an input, counted from its first
};

PUMICE_PARAMS_END

#ifdef __cplusplus
static_assert(sizeof(pumice::LeadTokenParams) == 16);
#endif
#endif
