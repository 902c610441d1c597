// Neighbouring rows of an input become one row.
#ifndef PUMICE_JOIN_PATCHES_PARAMS_H
#define PUMICE_JOIN_PATCHES_PARAMS_H
#include "common/shared.h"

PUMICE_PARAMS_BEGIN

// Buffers.
CONSTANT JOIN_PATCHES_STEP = 0;
CONSTANT JOIN_PATCHES_X = 1;      // [tokens, x_stride]
CONSTANT JOIN_PATCHES_RESULT = 2; // [tokens, out_stride]

// Specialisation constants. 0 is the workgroup's size.
CONSTANT JOIN_PATCHES_RULE_ID = 1; // what the rows become:
CONSTANT JOIN_PATCHES_JOINED = 0;
CONSTANT JOIN_PATCHES_AVERAGED = 1;

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
