// Each row's `used` experts with the largest logits, the largest first, and the share of the row's result
// that each has: its part of the softmax over all experts, or over those chosen.
#ifndef PUMICE_EXPERT_ROUTE_PARAMS_H
#define PUMICE_EXPERT_ROUTE_PARAMS_H
#include "common/shared.h"

PUMICE_PARAMS_BEGIN

// Buffers.
CONSTANT EXPERT_ROUTE_STEP = 0;
CONSTANT EXPERT_ROUTE_LOGITS = 1; // [rows, logits_stride]
CONSTANT EXPERT_ROUTE_BLOCKS = 2; // as in matmul.params.h, a slot to a block: slot = row * used + choice
CONSTANT EXPERT_ROUTE_SHARES = 3; // [rows * used]

// Specialisation constants. 0 is the workgroup's size.
CONSTANT EXPERT_ROUTE_NORMALISE_ID = 1; // 1: the shares of a row add up to 1

struct ExpertRouteParams {
  UINT experts;
  UINT used;
  UINT logits_stride; // in floats
  UINT rows_kind;     // ROWS_*
};

PUMICE_PARAMS_END

#ifdef __cplusplus
static_assert(sizeof(pumice::ExpertRouteParams) == 16);
#endif
#endif
