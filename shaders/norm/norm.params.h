// RMS: result = x / sqrt(mean(x^2) + eps) * (weight + offset); layer: (x - mean(x)) / sqrt(variance(x) + eps)
// * weight + bias. Each row on its own, or each of the equal groups of columns that a row has.
#ifndef PUMICE_NORM_PARAMS_H
#define PUMICE_NORM_PARAMS_H
#include "common/shared.h"

PUMICE_PARAMS_BEGIN

// Buffers.
CONSTANT NORM_STEP = 0;
CONSTANT NORM_X = 1;      // [rows, x_stride]
CONSTANT NORM_WEIGHT = 2; // [columns], padded to a multiple of 32; the same for all groups
CONSTANT NORM_BIAS = 3;   // the same
CONSTANT NORM_RESULT = 4; // [rows, out_stride]

// Specialisation constants. 0 is the workgroup's size.
CONSTANT NORM_KIND_ID = 1;     // NORM_KIND_*
CONSTANT NORM_HAS_BIAS_ID = 2; // 0 or 1

CONSTANT NORM_KIND_RMS = 0;
CONSTANT NORM_KIND_LAYER = 1;

struct NormParams {
  UINT columns;    // of a group; a multiple of 4 if there are several
  UINT groups;     // of a row
  UINT x_stride;   // in floats
  UINT out_stride; // in floats
  UINT rows_kind;  // ROWS_*
  float eps;
  float offset; // added to the weights
};

PUMICE_PARAMS_END

#ifdef __cplusplus
static_assert(sizeof(pumice::NormParams) == 28);
#endif
#endif
