// result = x + the sinusoidal encoding of the row's position.
#ifndef PUMICE_SINUSOID_PARAMS_H
#define PUMICE_SINUSOID_PARAMS_H
#include "common/shared.h"

PUMICE_PARAMS_BEGIN

// Buffers.
CONSTANT SINUSOID_STEP = 0;
CONSTANT SINUSOID_X = 1; // [tokens, x_stride]
CONSTANT SINUSOID_TABLE =
    2; // for each sine, revolutions per position: a fraction of 64 bits, high dword first
CONSTANT SINUSOID_RESULT = 3; // [tokens, out_stride]

// Specialisation constants. 0 is the workgroup's size.
CONSTANT SINUSOID_LAYOUT_ID = 1; // SINUSOID_LAYOUT_*

CONSTANT SINUSOID_LAYOUT_INTERLEAVED = 0;
CONSTANT SINUSOID_LAYOUT_HALVES = 1;

struct SinusoidParams {
  UINT columns;
  UINT x_stride; // in floats
  UINT out_stride;
  UINT first; // the number of a text's first position
};

PUMICE_PARAMS_END

#ifdef __cplusplus
static_assert(sizeof(pumice::SinusoidParams) == 16);
#endif
#endif
