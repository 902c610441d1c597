// result = y + scale * (h * up^T), with the matrix and the scale of each row's adapter: the second half of
// low-rank adapters. Or, of a product with an activation or a gate, activation(y + ...) or
// activation(gate + ...) * (up + ...).
#ifndef PUMICE_ADAPTER_UP_PARAMS_H
#define PUMICE_ADAPTER_UP_PARAMS_H
#include "adapter/numbers.h"
#include "common/load.h"

PUMICE_PARAMS_BEGIN

// Buffers.
CONSTANT ADAPTER_UP_STEP = 0;
CONSTANT ADAPTER_UP_Y = 1;      // y_first floats, then [rows, y_stride]; with a gate, eight columns of the
                                // gate, eight of the other factor, and so on
CONSTANT ADAPTER_UP_H = 2;      // h_first floats, then [rows, h_stride]: `rank` for each matrix
// [places, matrices, rank, columns padded to a multiple of 32]; where a dword has two numbers, those of columns 16 * a + b and
// 16 * a + 8 + b, for b below 8, are in dword 8 * a + b
CONSTANT ADAPTER_UP_MATRIX = 3;
CONSTANT ADAPTER_UP_RESULT = 4; // [rows, out_stride]

// Specialisation constants. 0 is the workgroup's size.
CONSTANT ADAPTER_UP_GATED_ID = 1;      // 0 or 1: two matrices, of the gate and of the other factor
CONSTANT ADAPTER_UP_ACTIVATION_ID = 2; // ACTIVATION_*
CONSTANT ADAPTER_UP_NUMBERS_ID = 3;    // ADAPTER_*

struct AdapterUpParams {
  UINT columns; // of the result
  UINT rank;    // of the matrices, at most; a multiple of 4
  UINT y_first; // in floats, multiples of 4
  UINT y_stride;
  UINT h_first;
  UINT h_stride;
  UINT out_stride;
  UINT rows_kind; // ROWS_*
  UINT details;   // where the outputs' details begin in the step block, in quads
  UINT adapters;  // the same of the sequences' adapters
};

PUMICE_PARAMS_END

#ifdef __cplusplus
static_assert(sizeof(pumice::AdapterUpParams) == 40);
#endif
#endif
