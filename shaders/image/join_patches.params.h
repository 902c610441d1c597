// Neighbouring rows of an input become one row.
#ifndef PUMICE_JOIN_PATCHES_PARAMS_H
#define PUMICE_JOIN_PATCHES_PARAMS_H
#include "common/shared.h"

PUMICE_PARAMS_BEGIN

// Buffers.
CONSTANT JOIN_PATCHES_STEP = 0;
CONSTANT JOIN_PATCHES_X = 1;      // [tokens, x_stride]
CONSTANT JOIN_PATCHES_RESULT = 2; // [tokens, out_stride]

// Specialisation constant 0 is the workgroup's size.

struct JoinPatchesParams {
  UINT columns; // of x
  UINT x_stride;
  UINT out_stride;
  UINT joined;  // rows that become one
  UINT details; // where the section of the step block begins (common/step.h), in quads
};

PUMICE_PARAMS_END

#ifdef __cplusplus
static_assert(sizeof(pumice::JoinPatchesParams) == 20);
#endif
#endif
