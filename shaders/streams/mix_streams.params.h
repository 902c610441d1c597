// A row has several streams of columns, which AltUp (Baykal et al. 2023) predicts from each other before a
// layer, and corrects by what the layer has made of one of them.
#ifndef PUMICE_MIX_STREAMS_PARAMS_H
#define PUMICE_MIX_STREAMS_PARAMS_H
#include "common/shared.h"

PUMICE_PARAMS_BEGIN

// Buffers.
CONSTANT MIX_STREAMS_STEP = 0;
CONSTANT MIX_STREAMS_X = 1;            // [rows, x_stride]
CONSTANT MIX_STREAMS_ROUTED = 2;       // [rows, routed_stride], a number for each stream
CONSTANT MIX_STREAMS_COEFFICIENTS = 3; // [streams * streams or streams, streams]
CONSTANT MIX_STREAMS_ADDED = 4;        // [rows, added_stride], columns of one stream
CONSTANT MIX_STREAMS_RESULT = 5;       // [rows, out_stride]

// Specialisation constants. 0 is the workgroup's size.
CONSTANT MIX_STREAMS_KIND_ID = 1;    // MIX_STREAMS_*
CONSTANT MIX_STREAMS_STREAMS_ID = 2; // of a row

CONSTANT MIX_STREAMS_PREDICT = 0; // x[i] + sum over j of c[i * streams + j] * x[j]
CONSTANT MIX_STREAMS_CORRECT = 1; // x[i] + (c[i] + 1) * (added - x[computed])
CONSTANT MIX_STREAMS_ADD = 2;     // x[i] + added, but x[0] as it is
// where c = COEFFICIENTS * tanh(routed * scale)

struct MixStreamsParams {
  UINT columns;  // of a stream, a multiple of 4
  UINT x_stride; // in floats, as those below
  UINT routed_stride;
  UINT added_stride;
  UINT out_stride;
  UINT rows_kind; // ROWS_*
  UINT computed; // the stream that the layer has made
  float scale;
};

PUMICE_PARAMS_END

#ifdef __cplusplus
static_assert(sizeof(pumice::MixStreamsParams) == 32);
#endif
#endif
