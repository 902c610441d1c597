// A gated recurrent unit (Cho et al. 2014, as torch.nn.GRU has it) over each whole input of an encoder's
// step, in one direction or in both. With the gates' inputs x, of a position and its state before, h:
//   r = sigmoid(x_r + W_r h + b_r), z = sigmoid(x_z + W_z h + b_z), n = tanh(x_n + r * (W_n h + b_n)),
//   h = (1 - z) * n + z * h
#ifndef PUMICE_GRU_PARAMS_H
#define PUMICE_GRU_PARAMS_H
#include "common/shared.h"

PUMICE_PARAMS_BEGIN

// Buffers.
CONSTANT GRU_STEP = 0;
CONSTANT GRU_GATES = 1;    // [tokens, gates_stride]: r, z and n of the first direction
CONSTANT GRU_BACKWARD = 2; // the same of the other one
CONSTANT GRU_WEIGHTS = 3;  // of each direction: W [3 * hidden, hidden], then b [3 * hidden]
CONSTANT GRU_RESULT = 4;   // [tokens, out_stride]: the states, of the first direction and then of the other

// Specialisation constants. 0 is the workgroup's size.
CONSTANT GRU_HIDDEN_ID = 1;

struct GruParams {
  UINT gates_stride; // in floats
  UINT backward_stride;
  UINT out_stride;
  UINT bias;      // where b begins in the weights of a direction, in floats
  UINT direction; // from one direction's weights to the next
  UINT directions;
  UINT details;    // where that section of the step block begins, in quads
  UINT first_step; // the dispatch computes so many positions of each input, counted from where the recurrence
                   // begins
  UINT steps;
};

PUMICE_PARAMS_END

#ifdef __cplusplus
static_assert(sizeof(pumice::GruParams) == 36);
#endif
#endif
