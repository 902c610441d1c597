// The patches of the host's pictures, in cells (cells.glsl): each is a pixel of a cell.
#ifndef PUMICE_CELL_PATCHES_PARAMS_H
#define PUMICE_CELL_PATCHES_PARAMS_H
#include "common/shared.h"

PUMICE_PARAMS_BEGIN

// Buffers.
CONSTANT CELL_PATCHES_STEP = 0;
CONSTANT CELL_PATCHES_PIXELS = 1; // [outputs, pixels_stride]
CONSTANT CELL_PATCHES_RESULT = 2; // [tokens, out_stride]

// Specialisation constant 0 is the workgroup's size.

struct CellPatchesParams {
  UINT channels;
  UINT height; // of the picture
  UINT width;
  UINT patch_height;
  UINT patch_width;
  UINT side; // patches on a side of a cell
  UINT cells; // across
  UINT count; // of the picture's cells
  UINT pixels_stride; // in floats
  UINT out_stride;
};

PUMICE_PARAMS_END

#ifdef __cplusplus
static_assert(sizeof(pumice::CellPatchesParams) == 40);
#endif
#endif
