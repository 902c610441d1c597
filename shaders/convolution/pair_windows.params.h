// Rows that the weights of a convolution of width 3 and stride 2 are multiplied with, from results for even
// and for odd frames.
#ifndef PUMICE_PAIR_WINDOWS_PARAMS_H
#define PUMICE_PAIR_WINDOWS_PARAMS_H
#include "common/shared.h"

PUMICE_PARAMS_BEGIN

// Buffers.
CONSTANT PAIR_WINDOWS_STEP = 0;
CONSTANT PAIR_WINDOWS_EVEN = 1;   // [tokens, even_stride]
CONSTANT PAIR_WINDOWS_ODD = 2;    // [tokens, odd_stride]
CONSTANT PAIR_WINDOWS_RESULT = 3; // [tokens, out_stride]

// Specialisation constant 0 is the workgroup's size.

struct PairWindowsParams {
  UINT columns;     // of the result
  UINT even_stride; // in floats
  UINT odd_stride;
  UINT out_stride;
};

PUMICE_PARAMS_END

#ifdef __cplusplus
static_assert(sizeof(pumice::PairWindowsParams) == 16);
#endif
#endif
