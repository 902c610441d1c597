// The scores of a row's queries with the keys of relative positions, and of its keys with their queries, as
// DeBERTa has them.
#ifndef PUMICE_POSITION_SCORES_PARAMS_H
#define PUMICE_POSITION_SCORES_PARAMS_H
#include "common/shared.h"

PUMICE_PARAMS_BEGIN

// Buffers.
CONSTANT POSITION_SCORES_STEP = 0;
CONSTANT POSITION_SCORES_Q = 1; // [rows, q_stride]
CONSTANT POSITION_SCORES_K = 2; // [rows, k_stride]
// For queries, then for keys: [heads, head_dim, padded to 4s, by fours, buckets, 4].
CONSTANT POSITION_SCORES_TABLE = 3;
CONSTANT POSITION_SCORES_RESULT = 4; // [rows, result_stride]: for queries, then for keys: [heads, buckets]

// Specialisation constants. 0 is the workgroup's size.
CONSTANT POSITION_SCORES_HEAD_DIM_ID = 1;
CONSTANT POSITION_SCORES_ROWS = 8; // of a workgroup

struct PositionScoresParams {
  UINT q_first;  // index of the first float: a view may begin where a descriptor must not
  UINT q_stride; // in floats
  UINT k_first;
  UINT k_stride;
  UINT result_stride;
  UINT heads;
  UINT buckets;
  float scale;
};

PUMICE_PARAMS_END

#ifdef __cplusplus
static_assert(sizeof(pumice::PositionScoresParams) == 32);
#endif
#endif
