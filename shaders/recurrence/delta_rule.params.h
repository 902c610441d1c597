// The gated delta rule. Of each channel c of value head h, with the unit vectors q and k of its key head:
//   state[n] *= keeps[h], then state[n] += k[n] * rates[h] * (v[c] - sum of state[m] * k[m]),
//   result[c] = sum of state[n] * q[n] / sqrt(size)
#ifndef PUMICE_DELTA_RULE_PARAMS_H
#define PUMICE_DELTA_RULE_PARAMS_H
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

// Specialisation constant 0 is the workgroup's size.

struct DeltaRuleParams {
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
  UINT key_heads;   // after the last one, value heads begin with the first again
};

PUMICE_PARAMS_END

#ifdef __cplusplus
static_assert(sizeof(pumice::DeltaRuleParams) == 44);
#endif
#endif
