// What of its state a head of the gated delta rule keeps, and how fast it learns:
//   keeps[h] = exp(a[h] * softplus(decays[h] + decay_bias[h])), rates[h] = sigmoid(rates[h])
#ifndef PUMICE_DELTA_GATES_PARAMS_H
#define PUMICE_DELTA_GATES_PARAMS_H
#include "common/shared.h"

PUMICE_PARAMS_BEGIN

// Buffers.
CONSTANT DELTA_GATES_STEP = 0;
CONSTANT DELTA_GATES_DECAYS = 1;  // [tokens, decays_stride]
CONSTANT DELTA_GATES_RATES = 2;   // [tokens, rates_stride]
CONSTANT DELTA_GATES_WEIGHTS = 3; // [2, weight_stride]: decay_bias, a or the logarithm of -a of each head
CONSTANT DELTA_GATES_RESULT = 4;  // [tokens, out_stride]: keeps, then rates

// Specialisation constants. 0 is the workgroup's size.
CONSTANT DELTA_GATES_LOG_A_ID = 1; // 1: the file has logarithms

struct DeltaGatesParams {
  UINT heads;
  UINT decays_stride; // in floats
  UINT rates_stride;
  UINT out_stride;
  UINT weight_stride;
};

PUMICE_PARAMS_END

#ifdef __cplusplus
static_assert(sizeof(pumice::DeltaGatesParams) == 20);
#endif
#endif
