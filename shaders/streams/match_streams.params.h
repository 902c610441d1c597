// Gives the streams of a row but the first one the root mean square of the first. Either the result has all
// of them, or their mean.
#ifndef PUMICE_MATCH_STREAMS_PARAMS_H
#define PUMICE_MATCH_STREAMS_PARAMS_H
#include "common/shared.h"

PUMICE_PARAMS_BEGIN

// Buffers.
CONSTANT MATCH_STREAMS_STEP = 0;
CONSTANT MATCH_STREAMS_FIRST = 1;  // [rows, first_stride], of which a row begins with the first stream
CONSTANT MATCH_STREAMS_OTHERS = 2; // [rows, others_stride]
CONSTANT MATCH_STREAMS_RESULT = 3; // [rows, out_stride]

// Specialisation constants. 0 is the workgroup's size.
CONSTANT MATCH_STREAMS_STREAMS_ID = 1; // with the first
CONSTANT MATCH_STREAMS_MEAN_ID = 2;    // 0 or 1

struct MatchStreamsParams {
  UINT columns;      // of a stream, a multiple of 4
  UINT first_stride; // in floats, as those below
  UINT others_stride;
  UINT out_stride;
  UINT rows_kind; // ROWS_*
  float least;    // of a stream's mean square
};

PUMICE_PARAMS_END

#ifdef __cplusplus
static_assert(sizeof(pumice::MatchStreamsParams) == 24);
#endif
#endif
