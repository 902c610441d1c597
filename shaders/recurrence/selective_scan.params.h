// Mamba 2's state-space layer. Of each channel c of head h, with the group's vectors B and C:
//   step = clamp(softplus(steps[h] + step_bias[h])), state[n] = exp(step * a[h]) * state[n] + step * x[c] *
//   B[n], result[c] = sum of state[n] * C[n] + skip[h] * x[c]
// In Mamba 1's each channel is a head, and each number n of its state has a rate of its own, a[h, n].
#ifndef PUMICE_SELECTIVE_SCAN_PARAMS_H
#define PUMICE_SELECTIVE_SCAN_PARAMS_H
#include "common/load.h"
#include "common/shared.h"

PUMICE_PARAMS_BEGIN

// Buffers.
CONSTANT SELECTIVE_SCAN_STEP = 0;
CONSTANT SELECTIVE_SCAN_X = 1;     // [tokens, x_stride]
CONSTANT SELECTIVE_SCAN_STEPS = 2; // [tokens, steps_stride]
CONSTANT SELECTIVE_SCAN_WEIGHTS =
    3; // [2, weight_stride]: step_bias and skip of each head; then a, or the logarithms of -a
CONSTANT SELECTIVE_SCAN_STATE = 4;  // [size, columns] each
CONSTANT SELECTIVE_SCAN_RESULT = 5; // [tokens, out_stride]
CONSTANT SELECTIVE_SCAN_B = 6;      // [tokens, b_stride]: of each group
CONSTANT SELECTIVE_SCAN_C = 7;      // [tokens, c_stride]

// Specialisation constants. 0 is the workgroup's size.
CONSTANT SELECTIVE_SCAN_LOG_A_ID = 1; // 1: the file has logarithms
// Of the kernel for CPU drivers:
CONSTANT SELECTIVE_SCAN_SIZE_ID = 2;     // params.size
CONSTANT SELECTIVE_SCAN_CHANNELS_ID = 3; // of a workgroup, which are of one head
CONSTANT SELECTIVE_SCAN_LOAD_ID = 4;     // LOAD_LANE, or LOAD_UNIFORM where size is a multiple of 8
// Of both:
CONSTANT SELECTIVE_SCAN_WIDE_ID = 5; // 1: rates [heads, size]

struct SelectiveScanParams {
  ADDRESS b; // the same buffers by address, for LOAD_UNIFORM
  ADDRESS c;
  UINT columns; // heads * head_dim
  UINT head_dim;
  UINT group_heads; // heads of a group
  UINT size;        // of a channel's state
  UINT x_stride;    // in floats
  UINT b_stride;
  UINT c_stride;
  UINT steps_stride;
  UINT out_stride;
  UINT weight_stride;
  UINT checkpoints; // of the states
  UINT drafts;      // the same
  UINT first_row;   // of a part of the step's rows
  UINT end_row;
  float least_step;
  float most_step;
};

PUMICE_PARAMS_END

#ifdef __cplusplus
static_assert(sizeof(pumice::SelectiveScanParams) == 80);
#endif
#endif
