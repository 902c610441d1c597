// result = x + sin(alpha x)^2 / (alpha + least), with an alpha for each channel (Ziyin et al. 2020).
#ifndef PUMICE_SNAKE_PARAMS_H
#define PUMICE_SNAKE_PARAMS_H
#include "common/shared.h"

PUMICE_PARAMS_BEGIN

// Buffers.
CONSTANT SNAKE_STEP = 0;
CONSTANT SNAKE_X = 1;      // [tokens, x_stride]
CONSTANT SNAKE_ALPHA = 2;  // [channels]
CONSTANT SNAKE_RESULT = 3; // [tokens, out_stride]

// Specialisation constant 0 is the workgroup's size.

struct SnakeParams {
  UINT columns; // frame after frame
  UINT channels; // a multiple of 4
  UINT x_stride;
  UINT out_stride;
  float least;
};

PUMICE_PARAMS_END

#ifdef __cplusplus
static_assert(sizeof(pumice::SnakeParams) == 20);
#endif
#endif
