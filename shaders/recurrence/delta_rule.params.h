// The gated delta rule. Of each channel c of value head h, with the unit vectors q and k of its key head:
//   state[n] *= keeps[h], then state[n] += k[n] * rates[h] * (v[c] - sum of state[m] * k[m]),
//   result[c] = sum of state[n] * q[n] / sqrt(size)
#ifndef PUMICE_DELTA_RULE_PARAMS_H
#define PUMICE_DELTA_RULE_PARAMS_H
#include "common/load.h"
#include "common/shared.h"

PUMICE_PARAMS_BEGIN

// Buffers.
CONSTANT DELTA_RULE_STEP = 0;
CONSTANT DELTA_RULE_QUERY = 1;  // [tokens, query_stride]
CONSTANT DELTA_RULE_GATES = 2;  // [tokens, gates_stride]: keeps, then rates
CONSTANT DELTA_RULE_STATE = 3;  // [size, columns] each
CONSTANT DELTA_RULE_RESULT = 4; // [tokens, out_stride]
CONSTANT DELTA_RULE_KEY = 5;    // [tokens, key_stride]
CONSTANT DELTA_RULE_VALUE = 6;  // [tokens, value_stride]

// Specialisation constants. 0 is the workgroup's size. Of the kernel for CPU drivers:
CONSTANT DELTA_RULE_SIZE_ID = 1;     // params.size
CONSTANT DELTA_RULE_CHANNELS_ID = 2; // of a workgroup, which are of one head
CONSTANT DELTA_RULE_LOAD_ID = 3;     // LOAD_LANE, or LOAD_UNIFORM where size is a multiple of 8

struct DeltaRuleParams {
  ADDRESS query; // the same buffers by address, for LOAD_UNIFORM
  ADDRESS key;
  UINT columns;      // value heads * their head_dim
  UINT head_dim;     // of values
  UINT key_share;    // neighbouring value heads of a key head
  UINT size;         // head_dim of queries and keys
  UINT query_stride; // in floats
  UINT key_stride;
  UINT value_stride;
  UINT gates_stride;
  UINT out_stride;
  UINT checkpoints; // of the states
  UINT drafts;      // the same
  UINT first_row;   // of a part of the step's rows
  UINT end_row;
  UINT key_heads; // after the last one, value heads begin with the first again
};

PUMICE_PARAMS_END

#ifdef __cplusplus
static_assert(sizeof(pumice::DeltaRuleParams) == 72);
#endif
#endif
