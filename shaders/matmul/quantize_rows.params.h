// Rows of floats in 8 bits: each 32 columns become codes -127 to 127 of one scale, which takes the largest of
// them to 127. What a block leaves is CODES_QUADS quads: the codes of 32 columns, then, as floats, the scale
// and the sums of the first and of the last sixteen numbers that the codes stand for.
#ifndef PUMICE_QUANTIZE_ROWS_PARAMS_H
#define PUMICE_QUANTIZE_ROWS_PARAMS_H
#include "common/shared.h"

PUMICE_PARAMS_BEGIN

CONSTANT QUANTIZE_STEP = 0;
CONSTANT QUANTIZE_X = 1;     // [rows, x_stride]
CONSTANT QUANTIZE_CODES = 2; // [rows, blocks, CODES_QUADS]

CONSTANT CODES_QUADS = 3;

// Specialisation constants. 0 is the workgroup's size.
CONSTANT QUANTIZE_SUBGROUP_ID = 1; // as MATMUL_SUBGROUP_ID

struct QuantizeRowsParams {
  UINT blocks;    // of 32 columns
  UINT x_stride;  // in floats
  UINT rows_kind; // ROWS_*
  UINT rows_each; // rows of x to a row of the step
};

PUMICE_PARAMS_END
#endif
