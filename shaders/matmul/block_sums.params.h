// result[row, block] = sum of the block's 32 columns of x, in the order in which the products add them up
// themselves.
#ifndef PUMICE_BLOCK_SUMS_PARAMS_H
#define PUMICE_BLOCK_SUMS_PARAMS_H
#include "common/shared.h"

PUMICE_PARAMS_BEGIN

// Buffers.
CONSTANT BLOCK_SUMS_STEP = 0;
CONSTANT BLOCK_SUMS_X = 1;      // [rows, x_stride]
CONSTANT BLOCK_SUMS_RESULT = 2; // [rows, blocks * parts]

// Specialisation constants. 0 is the workgroup's size.
CONSTANT BLOCK_SUMS_PARTS_ID = 1; // 2: a sum for each half of a block

struct BlockSumsParams {
  UINT sums;      // of a row
  UINT x_stride;  // in floats
  UINT rows_kind; // ROWS_*
};

PUMICE_PARAMS_END

#ifdef __cplusplus
static_assert(sizeof(pumice::BlockSumsParams) == 12);
#endif
#endif
