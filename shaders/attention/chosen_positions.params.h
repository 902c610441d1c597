// Which positions a row attends to, where it does not attend to all: index_scores gives each position that the
// row sees a score, and choose_positions keeps those with the largest.
#ifndef PUMICE_CHOSEN_POSITIONS_PARAMS_H
#define PUMICE_CHOSEN_POSITIONS_PARAMS_H
#include "common/shared.h"

PUMICE_PARAMS_BEGIN

// Buffers of index_scores, beside ATTENTION_STEP, ATTENTION_Q and ATTENTION_KEYS: [rows, weights_stride], a
// weight for each head, and [rows of the dispatch, AttentionParams::result_stride], a score for each position.
CONSTANT INDEX_WEIGHTS = 3;
CONSTANT INDEX_SCORES = 4;

// It follows AttentionParams.
struct IndexScoresParams {
  UINT weights_first; // index of the first float: a view may begin where a descriptor must not
  UINT weights_stride;
  UINT most; // a row that sees no more positions than this needs no scores
  UINT span; // positions of a workgroup
};

// Buffers of choose_positions.
CONSTANT CHOOSE_STEP = 0;
CONSTANT CHOOSE_SCORES = 1; // those of index_scores
CONSTANT CHOOSE_RESULT = 2; // [rows, words]: bit i % 32 of word i / 32 says whether the row attends to position i

struct ChoosePositionsParams {
  UINT scores_stride; // in floats
  UINT words;
  UINT most;      // that a row attends to
  UINT first_row; // the step's row that the dispatch begins with
};

PUMICE_PARAMS_END

#ifdef __cplusplus
static_assert(sizeof(pumice::IndexScoresParams) == 16 && sizeof(pumice::ChoosePositionsParams) == 16);
#endif
#endif
