// Of pictures whose channels attend to each other: the shares that each channel of a group has in each other one.
#ifndef PUMICE_CHANNEL_SCORES_PARAMS_H
#define PUMICE_CHANNEL_SCORES_PARAMS_H
#include "common/shared.h"

PUMICE_PARAMS_BEGIN

// Buffers.
CONSTANT CHANNEL_SCORES_STEP = 0;
CONSTANT CHANNEL_SCORES_QUERY = 1;  // [outputs, query_stride]: pixel after pixel
CONSTANT CHANNEL_SCORES_KEY = 2;    // [outputs, key_stride]
CONSTANT CHANNEL_SCORES_RESULT = 3; // [outputs, channels * channels of a group]

// Specialisation constants. 0 is the workgroup's size.
CONSTANT CHANNEL_SCORES_GROUP_QUADS_ID = 1; // channels of a group, divided by four

struct ChannelScoresParams {
  UINT channels;
  UINT pixels;
  UINT query_stride; // in floats
  UINT key_stride;
  float scale;
};

PUMICE_PARAMS_END

#ifdef __cplusplus
static_assert(sizeof(pumice::ChannelScoresParams) == 20);
#endif
#endif
