// Each row's `used` experts with the best scores, the best first, and the share of the row's result that each
// has.
#ifndef PUMICE_EXPERT_ROUTE_PARAMS_H
#define PUMICE_EXPERT_ROUTE_PARAMS_H
#include "common/shared.h"

PUMICE_PARAMS_BEGIN

// Buffers.
CONSTANT EXPERT_ROUTE_STEP = 0;
CONSTANT EXPERT_ROUTE_LOGITS = 1; // [rows, logits_stride]
CONSTANT EXPERT_ROUTE_BLOCKS = 2; // as in matmul.params.h, a slot to a block: slot = row * used + choice
CONSTANT EXPERT_ROUTE_SHARES = 3; // [rows * used]
CONSTANT EXPERT_ROUTE_BIAS = 4;   // [experts]
CONSTANT EXPERT_ROUTE_SCALES = 5; // [experts]

// Specialisation constants. 0 is the workgroup's size.
CONSTANT EXPERT_ROUTE_NORMALISE_ID = 1; // 1: the shares of a row add up to `scale`
CONSTANT EXPERT_ROUTE_SCORE_ID = 2;     // EXPERT_SCORE_*
CONSTANT EXPERT_ROUTE_BIAS_ID = 3;      // 1: experts are chosen by score + bias
CONSTANT EXPERT_ROUTE_GROUPS_ID = 4;    // groups of neighbouring experts, of equal size
CONSTANT EXPERT_ROUTE_SCALED_ID = 5;    // 1: a share is multiplied by its expert's scale

CONSTANT EXPERT_SCORE_SOFTMAX = 0;      // of all logits
CONSTANT EXPERT_SCORE_SIGMOID = 1;      // of each logit
CONSTANT EXPERT_SCORE_SPARSE_MIXER = 2; // of the logits near the choice's, see the shader

struct ExpertRouteParams {
  UINT experts;
  UINT used;
  UINT logits_stride; // in floats
  UINT rows_kind;     // ROWS_*
  UINT used_groups;   // groups whose experts can be chosen
  UINT group_best;    // 1 or 2: so many of a group's best scores decide
  float scale;        // of all shares
  float jitter;       // of SPARSE_MIXER
};

PUMICE_PARAMS_END

#ifdef __cplusplus
static_assert(sizeof(pumice::ExpertRouteParams) == 32);
#endif
#endif
