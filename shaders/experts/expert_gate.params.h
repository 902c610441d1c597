// result[slot] = activation(scale * gate[slot] + gate_bias[expert]) * (scale * up[slot] + up_bias[expert]),
// for where the product's epilogue cannot do it. A slot's expert is in its block, scale is its share or 1.
#ifndef PUMICE_EXPERT_GATE_PARAMS_H
#define PUMICE_EXPERT_GATE_PARAMS_H
#include "common/shared.h"

PUMICE_PARAMS_BEGIN

// Buffers.
CONSTANT EXPERT_GATE_STEP = 0;
CONSTANT EXPERT_GATE_GATE = 1;      // [rows * used, stride]
CONSTANT EXPERT_GATE_UP = 2;        // [rows * used, stride]
CONSTANT EXPERT_GATE_CHOICES = 3;   // as in matmul.params.h, a slot to a block, in order
CONSTANT EXPERT_GATE_SHARES = 4;    // [rows * used]
CONSTANT EXPERT_GATE_GATE_BIAS = 5; // [experts, columns]
CONSTANT EXPERT_GATE_UP_BIAS = 6;   // [experts, columns]
CONSTANT EXPERT_GATE_RESULT = 7;    // [rows * used, stride]

// Specialisation constants. 0 is the workgroup's size.
CONSTANT EXPERT_GATE_ACTIVATION_ID = 1; // ACTIVATION_*
CONSTANT EXPERT_GATE_CLAMPED_ID = 2;    // 1: gpt-oss's gate, see the shader
CONSTANT EXPERT_GATE_BIAS_ID = 3;       // 1: there are biases
CONSTANT EXPERT_GATE_SCALED_ID = 4;     // 1: an expert's input is multiplied by its share

struct ExpertGateParams {
  UINT columns;
  UINT used;
  UINT stride;    // in floats
  UINT rows_kind; // ROWS_*
  float limit;    // of the clamped gate
};

PUMICE_PARAMS_END

#ifdef __cplusplus
static_assert(sizeof(pumice::ExpertGateParams) == 20);
#endif
#endif
