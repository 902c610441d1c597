// result[row] = residual[row] + sum over j of shares[slot] * (products[slot] + bias[expert of slot]),
// slot = row * used + j.
#ifndef PUMICE_EXPERT_COMBINE_PARAMS_H
#define PUMICE_EXPERT_COMBINE_PARAMS_H
#include "common/shared.h"

PUMICE_PARAMS_BEGIN

// Buffers.
CONSTANT EXPERT_COMBINE_STEP = 0;
CONSTANT EXPERT_COMBINE_PRODUCTS = 1; // [rows * used, products_stride]
CONSTANT EXPERT_COMBINE_SHARES = 2;   // [rows * used]
CONSTANT EXPERT_COMBINE_RESIDUAL = 3; // [rows, residual_stride]
CONSTANT EXPERT_COMBINE_RESULT = 4;   // [rows, out_stride]
CONSTANT EXPERT_COMBINE_CHOICES = 5;  // as in matmul.params.h, a slot to a block, in order
CONSTANT EXPERT_COMBINE_BIAS = 6;     // [experts, columns]

// Specialisation constants. 0 is the workgroup's size.
CONSTANT EXPERT_COMBINE_RESIDUAL_ID = 1; // 1: there is a residual
CONSTANT EXPERT_COMBINE_BIAS_ID = 2;     // 1: there is a bias
CONSTANT EXPERT_COMBINE_WEIGHTED_ID = 3; // 0: all shares count as 1

struct ExpertCombineParams {
  UINT columns;
  UINT used;
  UINT products_stride; // in floats
  UINT residual_stride;
  UINT out_stride;
  UINT rows_kind; // ROWS_*
};

PUMICE_PARAMS_END

#ifdef __cplusplus
static_assert(sizeof(pumice::ExpertCombineParams) == 24);
#endif
#endif
