// Adds learned positions: of a square table, interpolated to the size of each picture, or of two tables.
#ifndef PUMICE_GRID_POSITIONS_PARAMS_H
#define PUMICE_GRID_POSITIONS_PARAMS_H
#include "common/shared.h"

PUMICE_PARAMS_BEGIN

// Buffers.
CONSTANT GRID_POSITIONS_STEP = 0;
CONSTANT GRID_POSITIONS_X = 1;      // [tokens, x_stride]
CONSTANT GRID_POSITIONS_TABLE = 2;  // [side, side, columns], or [2, side, columns]
CONSTANT GRID_POSITIONS_RESULT = 3; // [tokens, out_stride]

// Specialisation constant 0 is the workgroup's size.
CONSTANT GRID_POSITIONS_RULE_ID = 1;
CONSTANT GRID_POSITIONS_LINEAR = 0; // the corners of a picture are the table's, and places between lines are linear
CONSTANT GRID_POSITIONS_CUBIC = 1;  // the edges of a picture's patches are the table's, by cubic convolution
CONSTANT GRID_POSITIONS_APART = 2;  // the sum of a place across, of the first table, and one down, of the second
CONSTANT GRID_POSITIONS_BEFORE = 3; // the table divides the picture, and a patch has the part that it begins in

struct GridPositionsParams {
  UINT columns;
  UINT x_stride; // in floats
  UINT out_stride;
  UINT side;
  UINT details; // where the section of the step block begins (common/step.h), in quads
};

PUMICE_PARAMS_END

#ifdef __cplusplus
static_assert(sizeof(pumice::GridPositionsParams) == 20);
#endif
#endif
