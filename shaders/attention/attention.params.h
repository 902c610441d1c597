// result[row, head] = softmax(scale * q[row, head] . keys) * values, over the positions that the row may see.
#ifndef PUMICE_ATTENTION_PARAMS_H
#define PUMICE_ATTENTION_PARAMS_H
#include "common/shared.h"

PUMICE_PARAMS_BEGIN

// Buffers. The cache's layout is described in runtime/kernel/cache_layout.h.
CONSTANT ATTENTION_STEP = 0;
CONSTANT ATTENTION_Q = 1;      // [rows, q_stride]
CONSTANT ATTENTION_KEYS = 2;   // one layer's
CONSTANT ATTENTION_VALUES = 3; // one layer's
CONSTANT ATTENTION_RESULT = 4; // [rows, result_stride]
CONSTANT ATTENTION_SUMS = 5;   // [rows, sums_stride]: each head's largest score, times log2(e), and its sum

// Specialisation constants. 0 is the workgroup's size.
CONSTANT ATTENTION_HEAD_DIM_ID = 1;
CONSTANT ATTENTION_CAPPED_ID = 2; // 1: scores are capped
CONSTANT ATTENTION_HEADS_ID = 3;  // heads of one group to a workgroup
CONSTANT ATTENTION_TOKENS_ID = 4; // rows of the step to a workgroup
CONSTANT ATTENTION_KEEP_ID = 5;   // 1: the largest scores and the sums are written too
CONSTANT ATTENTION_UNROLL_ID = 6; // 1: inner loops are unrolled; lane8 only

struct AttentionParams {
  UINT q_first;       // of the buffer's floats; views begin at offsets that no descriptor may have
  UINT q_stride;      // in floats
  UINT result_stride; // in floats
  UINT sums_stride;   // in floats
  UINT heads;
  UINT kv_heads;
  UINT capacity;       // positions of one sequence in the cache
  UINT position_limit; // positions from here on are in no cache
  UINT window;         // positions that a row may see, its own included; 0: all
  UINT end;            // not 0: a row sees the positions before this one, whatever its own
  UINT context;        // positions that attention_weights writes of each head
  float scale;         // of a score; divided by the cap where there is one
  float cap;           // a capped score is cap * tanh(score / cap)
};

PUMICE_PARAMS_END

#ifdef __cplusplus
static_assert(sizeof(pumice::AttentionParams) == 52);
#endif
#endif
