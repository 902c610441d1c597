// Attention of a picture's pixels in cells (cells.glsl) to those of their window, with a bias by the difference of
// two places. Windows may be shifted: those that reach over the picture's edge go on at the other one, and pixels
// that only this brings together hardly see each other (Liu et al., Swin Transformer, 2021).
#ifndef PUMICE_CELL_ATTENTION_PARAMS_H
#define PUMICE_CELL_ATTENTION_PARAMS_H
#include "common/shared.h"

PUMICE_PARAMS_BEGIN

// Buffers.
CONSTANT CELL_ATTENTION_STEP = 0;
CONSTANT CELL_ATTENTION_QUERY = 1; // [rows, x_stride], as keys and values
CONSTANT CELL_ATTENTION_KEY = 2;
CONSTANT CELL_ATTENTION_VALUE = 3;
CONSTANT CELL_ATTENTION_TABLE = 4;      // [(2 * window - 1)^2, heads]; only with CELL_ATTENTION_TABLE_ID
CONSTANT CELL_ATTENTION_OUTER_KEY = 5;  // [channels]: of pixels that fill up the last windows
CONSTANT CELL_ATTENTION_OUTER_VALUE = 6;
CONSTANT CELL_ATTENTION_RESULT = 7; // [rows, out_stride]
CONSTANT CELL_ATTENTION_SCORES = 8; // [rows, scores_stride]; only with CELL_ATTENTION_SCORES_ID

// Specialisation constants. 0 is the workgroup's size.
CONSTANT CELL_ATTENTION_HEAD_QUADS_ID = 1; // columns of a head, divided by four
CONSTANT CELL_ATTENTION_WHOLE_ID = 2;      // 0 or 1: whether a row is a picture, line by line: a cell of any side
CONSTANT CELL_ATTENTION_TABLE_ID = 3;      // 0 or 1: whether there is a bias by place
CONSTANT CELL_ATTENTION_SCORES_ID = 4;     // 0 or 1: whether a pixel's head has scores of distances down and across

CONSTANT CELL_ATTENTION_APART = 100; // less is the score of two pixels that only a shift brings together

struct CellAttentionParams {
  UINT heads;
  UINT height; // of the picture, in pixels
  UINT width;
  UINT side;  // pixels on a side of a cell
  UINT cells; // across
  UINT count; // of the picture's cells
  UINT window;
  UINT shift;
  UINT x_stride; // in floats
  UINT out_stride;
  float scale; // of the scores
  UINT groups; // workgroups of a row, before its next layer of them
  UINT rows_kind; // ROWS_*; of cells, ROWS_TOKENS
  UINT scores_stride;
};

PUMICE_PARAMS_END

#ifdef __cplusplus
static_assert(sizeof(pumice::CellAttentionParams) == 56);
#endif
#endif
