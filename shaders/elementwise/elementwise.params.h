// result = a + b, activation(a) * b, activation(a), amount * a, amount * tanh(a / amount), a * sigmoid(b),
// where b has one column, a from least to amount, or xIELU (Huang and Schlag, 2024), for where a product's epilogue
// cannot do it.
#ifndef PUMICE_ELEMENTWISE_PARAMS_H
#define PUMICE_ELEMENTWISE_PARAMS_H
#include "common/shared.h"

PUMICE_PARAMS_BEGIN

// Buffers.
CONSTANT ELEMENTWISE_STEP = 0;
CONSTANT ELEMENTWISE_A = 1;      // a_first floats, then [rows, a_stride]
CONSTANT ELEMENTWISE_B = 2;      // b_first floats, then [rows, b_stride]
CONSTANT ELEMENTWISE_RESULT = 3; // [rows, out_stride]

// Specialisation constants. 0 is the workgroup's size.
CONSTANT ELEMENTWISE_KIND_ID = 1;       // ELEMENTWISE_*
CONSTANT ELEMENTWISE_ACTIVATION_ID = 2; // ACTIVATION_*

CONSTANT ELEMENTWISE_ADD = 0;
CONSTANT ELEMENTWISE_GATE = 1;
CONSTANT ELEMENTWISE_ACTIVATE = 2;
CONSTANT ELEMENTWISE_SCALE = 3;
CONSTANT ELEMENTWISE_SOFT_CAP = 4;
CONSTANT ELEMENTWISE_GATE_ROWS = 5;
CONSTANT ELEMENTWISE_GATE_SIGMOID = 6;
CONSTANT ELEMENTWISE_CLAMP = 7;
CONSTANT ELEMENTWISE_XIELU = 8;

struct ElementwiseParams {
  UINT columns;
  UINT a_first; // in floats, multiples of 4
  UINT b_first;
  UINT a_stride;
  UINT b_stride;
  UINT out_stride;
  UINT rows_kind; // ROWS_*
  float amount;   // of SCALE, SOFT_CAP and CLAMP
  float least;    // of CLAMP
  // Of XIELU: slope a + rise a^2 where a is positive, otherwise slope a + fall (exp(min(a, end)) - 1 - a).
  float rise;
  float fall;
  float slope;
  float end;
};

PUMICE_PARAMS_END

#ifdef __cplusplus
static_assert(sizeof(pumice::ElementwiseParams) == 52);
#endif
#endif
