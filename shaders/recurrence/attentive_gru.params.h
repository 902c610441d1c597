// The decoder of Bahdanau, Cho and Bengio (2015): a gated recurrent unit (recurrence/gru.params.h) that
// reads, at each position, the token's embedding and a weighted sum of the encoder's states, its context.
// With the state before, h:
//   score of an input's position = v . tanh(Q h + its key), weights = softmax of the scores,
//   context = sum of weights * values, h = cell(W_input [embedding, context] + b_input, W_state h + b_state).
// The first state is tanh(B [the last state of the first direction, the first of the other] + b). The state
// after each position is kept in the cache, so that beams share their past.
#ifndef PUMICE_ATTENTIVE_GRU_PARAMS_H
#define PUMICE_ATTENTIVE_GRU_PARAMS_H
#include "common/shared.h"

PUMICE_PARAMS_BEGIN

// Buffers. Caches are laid out as runtime/kernel/cache_layout.h says,
// with one head.
CONSTANT ATTENTIVE_GRU_STEP = 0;
CONSTANT ATTENTIVE_GRU_X = 1;        // [tokens, x_stride]: embeddings
CONSTANT ATTENTIVE_GRU_KEYS = 2;     // of the encoder's input
CONSTANT ATTENTIVE_GRU_VALUES = 3;   // of the encoder's input: its states
CONSTANT ATTENTIVE_GRU_STATES = 4;   // the decoder's, as keys
CONSTANT ATTENTIVE_GRU_MATRICES = 5; // one after the other: AttentiveGruParams says where each begins
CONSTANT ATTENTIVE_GRU_RESULT = 6;   // [tokens, out_stride]: state, context, embedding
CONSTANT ATTENTIVE_GRU_SHARES = 7;   // [tokens, shares_stride]: the weights of the input's positions

// Specialisation constants. 0 is the workgroup's size.
CONSTANT ATTENTIVE_GRU_HIDDEN_ID = 1;
CONSTANT ATTENTIVE_GRU_INDIRECT_ID = 2; // 1: the step has a cache indirection
CONSTANT ATTENTIVE_GRU_KEEP_ID = 3;     // 1: the weights are written

struct AttentiveGruParams {
  UINT x_stride; // in floats
  UINT out_stride;
  UINT shares_stride;
  UINT shares;          // columns of the weights
  UINT memory_capacity; // positions of the encoder's inputs
  UINT capacity;        // positions of one sequence
  UINT sequences;
  UINT sequence_quads; // where the sections of the step block begin, in quads
  UINT cache_indirection;
  UINT indirection_positions;
  UINT bridge; // where the matrices begin, in floats: [hidden, hidden] ...
  UINT bridge_bias;
  UINT query;      // [hidden, hidden]
  UINT score;      // [hidden]
  UINT cell_input; // [3 * hidden, 2 * hidden]
  UINT cell_input_bias;
  UINT cell_state; // [3 * hidden, hidden]
  UINT cell_state_bias;
  UINT first_step; // the dispatch computes so many positions of each run
  UINT steps;
};

PUMICE_PARAMS_END

#ifdef __cplusplus
static_assert(sizeof(pumice::AttentiveGruParams) == 80);
#endif
#endif
