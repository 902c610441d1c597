// Rows of floats as 16-bit floats (f16), for products of f16 matrices. Each row is first multiplied by a
// power of two that takes its largest number to 2^14 or just above. So no number overflows, and only numbers
// 2^28 times smaller lose bits. What a row leaves: HALVES_BLOCK_QUADS quads for each 32 columns, and, after
// all rows' halves, one quad with what its sums must be multiplied by (1 / the power), and with its scale
// (EPILOGUE_ROW_SCALE), or 1.
#ifndef PUMICE_HALVE_ROWS_PARAMS_H
#define PUMICE_HALVE_ROWS_PARAMS_H
#include "common/shared.h"

PUMICE_PARAMS_BEGIN

CONSTANT HALVE_STEP = 0;
CONSTANT HALVE_X = 1;      // [rows, x_stride]
CONSTANT HALVE_HALVES = 2; // [rows, blocks, HALVES_BLOCK_QUADS], and [rows] quads

CONSTANT HALVES_BLOCK_QUADS = 4;

struct HalveRowsParams {
  UINT blocks;        // of 32 columns
  UINT x_stride;      // in floats
  UINT rows_kind;     // ROWS_*
  UINT rows_each;     // rows of x to a row of the step
  UINT factors;       // where the quads of the rows' factors begin
  UINT scale_columns; // as in MatmulParams; 0: no row has a scale
  UINT scale_sums;
  float scale_eps;
};

PUMICE_PARAMS_END
#endif
