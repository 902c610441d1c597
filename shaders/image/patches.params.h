// Rows of the step become patches of pictures, which lie in planes, a picture a row.
#ifndef PUMICE_PATCHES_PARAMS_H
#define PUMICE_PATCHES_PARAMS_H
#include "common/shared.h"

PUMICE_PARAMS_BEGIN

// Buffers.
CONSTANT PATCHES_STEP = 0;
CONSTANT PATCHES_PIXELS = 1; // [outputs, pixels_stride]
CONSTANT PATCHES_RESULT = 2; // [tokens, out_stride]

// Specialisation constant 0 is the workgroup's size.

struct PatchesParams {
  UINT columns;       // channels * patch_height * patch_width
  UINT pixels_stride; // in floats
  UINT out_stride;
  UINT height;
  UINT width;
  UINT patch_height;
  UINT patch_width;
  UINT count; // patches of a picture
  UINT lead;  // rows of an input before its first patch
};

PUMICE_PARAMS_END

#ifdef __cplusplus
static_assert(sizeof(pumice::PatchesParams) == 36);
#endif
#endif
