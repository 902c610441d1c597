// The logarithms of all frames of an input, no further below the largest than 8, as (x + 4) / 4, one band's
// frames after the other's. One kernel finds the largest of each part of the frames, another reads those.
#ifndef PUMICE_LOG_MEL_FEATURES_PARAMS_H
#define PUMICE_LOG_MEL_FEATURES_PARAMS_H
#include "common/shared.h"

PUMICE_PARAMS_BEGIN

// Buffers.
CONSTANT LOG_MEL_FEATURES_STEP = 0;
CONSTANT LOG_MEL_FEATURES_LOGS = 1;   // [tokens, logs_stride]
CONSTANT LOG_MEL_FEATURES_MAXIMA = 2; // [outputs, LOG_MEL_MAXIMA]
CONSTANT LOG_MEL_FEATURES_RESULT = 3; // [outputs, out_stride]

// Specialisation constant 0 is the workgroup's size.

CONSTANT LOG_MEL_MAXIMA = 256; // of an input

struct LogMelFeaturesParams {
  UINT logs_stride; // in floats
  UINT out_stride;
  UINT frames; // of an input
  UINT mels;
};

PUMICE_PARAMS_END

#ifdef __cplusplus
static_assert(sizeof(pumice::LogMelFeaturesParams) == 16);
#endif
#endif
