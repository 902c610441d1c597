// A convolution of each channel over the last positions of its sequence, whose inputs are the state.
#ifndef PUMICE_CAUSAL_CONVOLUTION_PARAMS_H
#define PUMICE_CAUSAL_CONVOLUTION_PARAMS_H
#include "common/shared.h"

PUMICE_PARAMS_BEGIN

// Buffers.
CONSTANT CAUSAL_CONVOLUTION_STEP = 0;
CONSTANT CAUSAL_CONVOLUTION_X = 1;      // [tokens, x_stride]
CONSTANT CAUSAL_CONVOLUTION_TAPS = 2;   // [columns, taps], the last one for a row's own input
CONSTANT CAUSAL_CONVOLUTION_BIAS = 3;   // [columns]
CONSTANT CAUSAL_CONVOLUTION_STATE = 4;  // [taps - 1, columns] each: the inputs before a position
CONSTANT CAUSAL_CONVOLUTION_RESULT = 5; // [tokens, out_stride]

// Specialisation constants. 0 is the workgroup's size.
CONSTANT CAUSAL_CONVOLUTION_TAPS_ID = 1;
CONSTANT CAUSAL_CONVOLUTION_ACTIVATION_ID = 2; // ACTIVATION_*
CONSTANT CAUSAL_CONVOLUTION_HAS_BIAS_ID = 3;

struct CausalConvolutionParams {
  UINT columns;
  UINT x_stride; // in floats
  UINT out_stride;
  UINT checkpoints; // of the states
  UINT drafts;      // the same
};

PUMICE_PARAMS_END

#ifdef __cplusplus
static_assert(sizeof(pumice::CausalConvolutionParams) == 20);
#endif
#endif
