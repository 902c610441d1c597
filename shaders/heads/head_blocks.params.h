// The blocks of a routed product (matmul/matmul.params.h) in which a row of the step has `each` rows, and these a
// slot for each matrix, which is its expert: slot = row * matrices + matrix.
#ifndef PUMICE_HEAD_BLOCKS_PARAMS_H
#define PUMICE_HEAD_BLOCKS_PARAMS_H
#include "common/shared.h"

PUMICE_PARAMS_BEGIN

// Buffers.
CONSTANT HEAD_BLOCKS_STEP = 0;
CONSTANT HEAD_BLOCKS_RESULT = 1;

// Specialisation constant 0 is the workgroup's size.

struct HeadBlocksParams {
  UINT matrices;
  UINT each; // rows to a row of the step
  UINT block_slots;
  UINT rows_kind; // ROWS_*
};

PUMICE_PARAMS_END

#ifdef __cplusplus
static_assert(sizeof(pumice::HeadBlocksParams) == 16);
#endif
#endif
