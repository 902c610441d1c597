// result = x * down^T, with the matrix of each row's adapter: the first half of low-rank adapters. What
// several products add to their results is computed together where they read the same x: their matrices lie
// one after the other, of `rank` rows each.
#ifndef PUMICE_ADAPTER_DOWN_PARAMS_H
#define PUMICE_ADAPTER_DOWN_PARAMS_H
#include "adapter/numbers.h"
#include "common/load.h"

PUMICE_PARAMS_BEGIN

// Buffers.
CONSTANT ADAPTER_DOWN_STEP = 0;
CONSTANT ADAPTER_DOWN_X = 1; // x_first floats, then [rows, x_stride]
// [places, members * rank / ADAPTER_RANKS] tiles: ADAPTER_RANKS floats by which the sums are multiplied, then
// [columns padded to a multiple of 32, ADAPTER_RANKS] numbers; where a dword has two, [columns / 2, ADAPTER_RANKS, 2]
CONSTANT ADAPTER_DOWN_MATRIX = 2;
// [rows, out_stride]; what is not of the row's adapter is not written. Of the tier cpu8, for products that add the second half
// themselves: multiplied by the adapter's scale, with zeros for what is not of it, behind ADAPTER_HEAD floats of which the first
// is the adapter's place + 1, or 0.
CONSTANT ADAPTER_DOWN_RESULT = 3;
CONSTANT ADAPTER_HEAD = 4;

// Specialisation constants. 0 is the workgroup's size.
CONSTANT ADAPTER_DOWN_ROWS_ID = 1;     // rows of a workgroup, of the tier cpu8 at most 8
CONSTANT ADAPTER_DOWN_LOAD_ID = 2;     // LOAD_*, of the tier cpu8
CONSTANT ADAPTER_DOWN_NUMBERS_ID = 3;  // ADAPTER_*
CONSTANT ADAPTER_DOWN_TOGETHER_ID = 4; // rows that share what is loaded, of the tier cpu8

// Rows of the matrix that a workgroup computes.
CONSTANT ADAPTER_RANKS = 8;

struct AdapterDownParams {
  ADDRESS x; // without x_first, and the matrix, with LOAD_UNIFORM
  ADDRESS matrix;
  UINT columns;  // of x
  UINT members;  // matrices
  UINT rank;     // rows of each, a multiple of ADAPTER_RANKS
  UINT x_first;  // in floats, a multiple of 4
  UINT x_stride; // in floats
  UINT out_stride;
  UINT rows_kind; // ROWS_*
  UINT details;   // where the outputs' details begin in the step block, in quads
  UINT adapters;  // the same of the sequences' adapters
  UINT unused;
};

PUMICE_PARAMS_END

#ifdef __cplusplus
static_assert(sizeof(pumice::AdapterDownParams) == 56);
#endif
#endif
