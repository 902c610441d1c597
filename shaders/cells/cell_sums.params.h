// What follows a product over the pixels of cells (cells.glsl), or of pictures: result = activation(x + bias) + residual, with a
// bias for each channel; zeros outside of the picture.
#ifndef PUMICE_CELL_SUMS_PARAMS_H
#define PUMICE_CELL_SUMS_PARAMS_H
#include "common/shared.h"

PUMICE_PARAMS_BEGIN

// Buffers.
CONSTANT CELL_SUMS_STEP = 0;
CONSTANT CELL_SUMS_X = 1;        // [rows, x_stride]
CONSTANT CELL_SUMS_BIAS = 2;     // [channels]
CONSTANT CELL_SUMS_RESIDUAL = 3; // [rows, residual_stride]
CONSTANT CELL_SUMS_RESULT = 4;   // [rows, out_stride]

// Specialisation constants. 0 is the workgroup's size.
CONSTANT CELL_SUMS_ACTIVATION_ID = 1;
CONSTANT CELL_SUMS_RESIDUAL_ID = 2; // 0 or 1: whether there is one

struct CellSumsParams {
  UINT channels; // of a pixel, a multiple of 4
  UINT height;   // of the picture, in pixels
  UINT width;
  UINT side;     // pixels on a side of a cell; 0: all pixels of a row are of the picture
  UINT pixels;   // of a row
  UINT cells;    // across
  UINT x_stride; // in floats, as those below
  UINT residual_stride;
  UINT out_stride;
  UINT rows_kind; // ROWS_*; of cells, ROWS_TOKENS
};

PUMICE_PARAMS_END

#ifdef __cplusplus
static_assert(sizeof(pumice::CellSumsParams) == 40);
#endif
#endif
