// result[i] = log-softmax(logits[i])[the target that output row i of the step names].
#ifndef PUMICE_LOG_LIKELIHOOD_PARAMS_H
#define PUMICE_LOG_LIKELIHOOD_PARAMS_H
#include "common/shared.h"

PUMICE_PARAMS_BEGIN

// Buffers.
CONSTANT LIKELIHOOD_STEP = 0;
CONSTANT LIKELIHOOD_LOGITS = 1; // [outputs, stride]
CONSTANT LIKELIHOOD_RESULT = 2; // [outputs, out_stride], a single column

// Specialisation constant 0 is the workgroup's size.

struct LogLikelihoodParams {
  UINT columns;
  UINT stride;     // in floats
  UINT out_stride; // in floats
  UINT capacity;   // rows that fit the step block
};

PUMICE_PARAMS_END

#ifdef __cplusplus
static_assert(sizeof(pumice::LogLikelihoodParams) == 16);
#endif
#endif
