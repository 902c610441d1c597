// The embeddings of a step, of which the host gives some.
#ifndef PUMICE_PROMPT_ROWS_PARAMS_H
#define PUMICE_PROMPT_ROWS_PARAMS_H
#include "common/shared.h"

PUMICE_PARAMS_BEGIN

// A token with this bit is none of the vocabulary: its row is given.
CONSTANT PROMPT_ROW = 0x80000000u;

// Buffers.
CONSTANT PROMPT_ROWS_STEP = 0;
CONSTANT PROMPT_ROWS_X = 1;          // [tokens, x_stride]
CONSTANT PROMPT_ROWS_EMBEDDINGS = 2; // [tokens, embeddings_stride]
CONSTANT PROMPT_ROWS_RESULT = 3;     // [tokens, out_stride]

// Specialisation constants. 0 is the workgroup's size.
CONSTANT PROMPT_ROWS_ADDED_ID = 1; // 1: given rows are added to x, 0: they replace it

struct PromptRowsParams {
  UINT columns; // of x
  UINT first;   // of the columns of what is given, a multiple of 4
  UINT x_stride; // in floats
  UINT embeddings_stride;
  UINT out_stride;
};

PUMICE_PARAMS_END

#ifdef __cplusplus
static_assert(sizeof(pumice::PromptRowsParams) == 20);
#endif
#endif
