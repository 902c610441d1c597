// result = activation(max(0, a - limit)) * b, where the limit of each row is so many standard deviations above the
// row's mean (Gemma Team, Gemma 3n, 2025). So few columns are left that the rest may be skipped.
#ifndef PUMICE_SPARSE_GATE_PARAMS_H
#define PUMICE_SPARSE_GATE_PARAMS_H
#include "common/shared.h"

PUMICE_PARAMS_BEGIN

// Buffers.
CONSTANT SPARSE_GATE_STEP = 0;
CONSTANT SPARSE_GATE_A = 1;      // [rows, a_stride]
CONSTANT SPARSE_GATE_B = 2;      // [rows, b_stride]
CONSTANT SPARSE_GATE_RESULT = 3; // [rows, out_stride]

// Specialisation constants. 0 is the workgroup's size.
CONSTANT SPARSE_GATE_ACTIVATION_ID = 1;

struct SparseGateParams {
  UINT columns;
  UINT a_first; // floats before the first row
  UINT b_first;
  UINT a_stride; // in floats, as those below
  UINT b_stride;
  UINT out_stride;
  UINT rows_kind; // ROWS_*
  float deviations;
};

PUMICE_PARAMS_END

#ifdef __cplusplus
static_assert(sizeof(pumice::SparseGateParams) == 32);
#endif
#endif
