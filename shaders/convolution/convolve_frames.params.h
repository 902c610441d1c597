// A convolution over the frames of an input, dilated or transposed.
#ifndef PUMICE_CONVOLVE_FRAMES_PARAMS_H
#define PUMICE_CONVOLVE_FRAMES_PARAMS_H
#include "common/shared.h"

PUMICE_PARAMS_BEGIN

// Buffers.
CONSTANT CONVOLVE_FRAMES_STEP = 0;
CONSTANT CONVOLVE_FRAMES_X = 1;
CONSTANT CONVOLVE_FRAMES_WEIGHT = 2; // [taps, channels, channels of the result, up to a multiple of 4]
CONSTANT CONVOLVE_FRAMES_BIAS = 3;   // [channels of the result]
CONSTANT CONVOLVE_FRAMES_RESULT = 4;

// Specialisation constants. 0 is the workgroup's size.
CONSTANT CONVOLVE_FRAMES_ACTIVATION_ID = 1; // ACTIVATION_*
CONSTANT CONVOLVE_FRAMES_BY_FOURS_ID = 2;   // 1: the result's channels are a multiple of 4

CONSTANT CONVOLVE_FRAMES_GROUP = 4; // frames of an invocation

struct ConvolveFramesParams {
  UINT row_stride; // of x, in floats
  UINT frame_stride;
  UINT out_row_stride;
  UINT channels;     // of x, a multiple of 4
  UINT out_channels; // what lies between the result's frames
  UINT quads;        // of the weights' columns
  UINT taps;
  UINT rows;     // of the step that are a frame of the input
  UINT x_rate;   // frames of x for each of those
  UINT x_short;  // that are lacking at the end
  UINT out_rate; // the same of the result
  UINT out_short;
  UINT up;      // frames of the result that have taps of their own
  UINT stride;  // frames of x from one of the result to the one `up` later
  UINT jump;    // frames of x from a tap to the one `up` later, two's complement
  UINT begin;   // added to a frame of the result, of which `up` divides the rest of
  UINT before;  // frames of x before the first tap
  UINT capacity; // rows that fit the step block
  UINT columns_groups; // workgroups along y
};

PUMICE_PARAMS_END

#ifdef __cplusplus
static_assert(sizeof(pumice::ConvolveFramesParams) == 76);
#endif
#endif
