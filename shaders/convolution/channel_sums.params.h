// Of pictures whose channels attend to each other: the sums of the values by their shares (channel_scores).
#ifndef PUMICE_CHANNEL_SUMS_PARAMS_H
#define PUMICE_CHANNEL_SUMS_PARAMS_H
#include "common/shared.h"

PUMICE_PARAMS_BEGIN

// Buffers.
CONSTANT CHANNEL_SUMS_STEP = 0;
CONSTANT CHANNEL_SUMS_SHARES = 1; // [outputs, channels * channels of a group]
CONSTANT CHANNEL_SUMS_VALUE = 2;  // [outputs, value_stride]: pixel after pixel
CONSTANT CHANNEL_SUMS_RESULT = 3; // [outputs, out_stride], likewise

// Specialisation constants. 0 is the workgroup's size.
CONSTANT CHANNEL_SUMS_GROUP_QUADS_ID = 1; // channels of a group, divided by four

struct ChannelSumsParams {
  UINT channels;
  UINT pixels;
  UINT value_stride; // in floats
  UINT out_stride;
  UINT groups; // workgroups of a row, before its next layer of them
};

PUMICE_PARAMS_END

#ifdef __cplusplus
static_assert(sizeof(pumice::ChannelSumsParams) == 20);
#endif
#endif
