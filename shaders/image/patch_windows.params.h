// Windows of the grid of a picture's patches become rows.
#ifndef PUMICE_PATCH_WINDOWS_PARAMS_H
#define PUMICE_PATCH_WINDOWS_PARAMS_H
#include "common/shared.h"

PUMICE_PARAMS_BEGIN

// Buffers.
CONSTANT PATCH_WINDOWS_STEP = 0;
CONSTANT PATCH_WINDOWS_X = 1;      // [tokens, x_stride]
CONSTANT PATCH_WINDOWS_RESULT = 2; // [tokens, out_stride]

// Specialisation constants. 0 is the workgroup's size.
CONSTANT PATCH_WINDOWS_RULE_ID = 1; // what a window becomes:
CONSTANT PATCH_WINDOWS_JOINED = 0;
CONSTANT PATCH_WINDOWS_AVERAGED = 1;

struct PatchWindowsParams {
  UINT columns; // of x
  UINT x_stride;
  UINT out_stride;
  UINT width;  // patches of the grid, from left to right
  UINT window; // patches on each side of a window
  UINT count;  // windows
  UINT lead;   // an input's rows before its patches
};

PUMICE_PARAMS_END

#ifdef __cplusplus
static_assert(sizeof(pumice::PatchWindowsParams) == 28);
#endif
#endif
