// A root mean square norm of each head of a row.
#ifndef PUMICE_HEAD_NORM_PARAMS_H
#define PUMICE_HEAD_NORM_PARAMS_H
#include "common/shared.h"

PUMICE_PARAMS_BEGIN

// Buffers.
CONSTANT HEAD_NORM_STEP = 0;
CONSTANT HEAD_NORM_X = 1;      // [tokens, x_stride]
CONSTANT HEAD_NORM_WEIGHT = 2; // [weights]
CONSTANT HEAD_NORM_RESULT = 3; // [tokens, out_stride]

// Specialisation constant 0 is the workgroup's size.

struct HeadNormParams {
  UINT columns;
  UINT head_dim;
  UINT weights;  // columns of a row go round them
  UINT x_stride; // in floats
  UINT out_stride;
  float eps;
};

PUMICE_PARAMS_END

#ifdef __cplusplus
static_assert(sizeof(pumice::HeadNormParams) == 24);
#endif
#endif
