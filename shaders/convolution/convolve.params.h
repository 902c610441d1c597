// A convolution over pictures, or over the frames of sounds.
#ifndef PUMICE_CONVOLVE_PARAMS_H
#define PUMICE_CONVOLVE_PARAMS_H
#include "common/shared.h"

PUMICE_PARAMS_BEGIN

// Buffers.
CONSTANT CONVOLVE_STEP = 0;
CONSTANT CONVOLVE_X = 1;
CONSTANT CONVOLVE_WEIGHT = 2; // [taps, channels of a group, channels of the result]
CONSTANT CONVOLVE_BIAS = 3;   // [channels of the result]
CONSTANT CONVOLVE_RESULT = 4;

// Specialisation constants. 0 is the workgroup's size.
CONSTANT CONVOLVE_ACTIVATION_ID = 1; // ACTIVATION_*
CONSTANT CONVOLVE_HAS_BIAS_ID = 2;
CONSTANT CONVOLVE_BY_FOURS_ID = 3;  // 1: neighbouring channels of x lie side by side, in whole groups of four
CONSTANT CONVOLVE_BY_TOKENS_ID = 4; // 1: an input's pixels are its rows of the step; 0: they are in one row

CONSTANT CONVOLVE_RULE_ID = 5;      // what is made of the sums, before the activation

// Rules.
CONSTANT CONVOLVE_AS_THEY_ARE = 0;
CONSTANT CONVOLVE_ROOTS = 1;
CONSTANT CONVOLVE_LOGARITHMS = 2; // of what is at least `least`

CONSTANT CONVOLVE_PIXELS = 4; // of an invocation

struct ConvolveParams {
  UINT row_stride; // of x, in floats, from an input's row to the next
  UINT pixel_stride;
  UINT channel_stride;
  UINT out_row_stride;
  UINT out_pixel_stride;
  UINT height; // of x, in pixels; by tokens, that is the input's own
  UINT width;
  UINT out_height;
  UINT out_width;
  UINT channels;       // of x that a group reads
  UINT out_channels;   // of all groups; a multiple of 4
  UINT group_channels; // of the result that a group makes
  UINT kernel_height;
  UINT kernel_width;
  UINT stride;
  UINT padding; // above and below
  UINT padding_across;
  UINT capacity;       // rows that fit the step block
  UINT sound_first;    // samples that the first frame of the result is made of; 0: this is no sound
  UINT sound_stride;   // samples from one frame of the result to the next
  UINT x_sound_first;  // the same of x's frames; 0: all of its rows of pixels count
  UINT x_sound_stride;
  UINT columns_groups; // workgroups along y
  float least;
};

PUMICE_PARAMS_END

#ifdef __cplusplus
static_assert(sizeof(pumice::ConvolveParams) == 96);
#endif
#endif
