// Puts the slots that have chosen the same expert into blocks of that expert, so that they share its weights.
#ifndef PUMICE_EXPERT_GROUP_PARAMS_H
#define PUMICE_EXPERT_GROUP_PARAMS_H
#include "common/shared.h"

PUMICE_PARAMS_BEGIN

// Buffers: blocks as in matmul.params.h.
CONSTANT EXPERT_GROUP_CHOICES = 0; // a slot to a block, from expert_route
CONSTANT EXPERT_GROUP_BLOCKS = 1;  // block_slots slots to a block

// Specialisation constant 0 is the workgroup's size.

struct ExpertGroupParams {
  UINT block_slots;
};

PUMICE_PARAMS_END

#ifdef __cplusplus
static_assert(sizeof(pumice::ExpertGroupParams) == 4);
#endif
#endif
