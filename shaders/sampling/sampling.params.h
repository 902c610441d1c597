// Logits to tokens: `scan` penalises repeated tokens and reduces each block of 32 logits, `pick` chooses a
// token for each output row and writes the next step's rows.
#ifndef PUMICE_SAMPLING_PARAMS_H
#define PUMICE_SAMPLING_PARAMS_H
#include "common/shared.h"

PUMICE_PARAMS_BEGIN

// Buffers.
CONSTANT SAMPLING_STEP = 0;
CONSTANT SAMPLING_STATE = 1;   // SamplingSlot[sequences]
CONSTANT SAMPLING_LOGITS = 2;  // [outputs, stride]; scan overwrites those of repeated tokens
CONSTANT SAMPLING_SCRATCH = 3; // uint[outputs][SAMPLING_ROW_QUAD + padded * SAMPLING_WORDS_PER_BLOCK]

// Specialisation constants. 0 is the workgroup's size.
CONSTANT SAMPLING_SLICE_ID = 1; // blocks to a workgroup of scan

CONSTANT SAMPLING_BLOCK = 32;   // logits
CONSTANT SAMPLING_RING = 4096;  // tokens of a sequence that are kept, a power of two
CONSTANT SAMPLING_WINDOW = 256; // most tokens that repetition looks back on

// One sequence's parameters and tokens. Written by runtime/kernel/sampling.h.
struct SamplingSlot {
  float temperature; // 0: take the largest logit
  float inverse_temperature;
  float top_p;     // 1 or more: off
  float log_min_p; // a very negative number: off
  float repeat_penalty;
  float inverse_repeat_penalty;
  UINT repeat_window; // 0: off
  UINT top_k;         // 0: off
  UINT seed_low;
  UINT seed_high;
  UINT count; // tokens appended so far; token n is tokens[n % SAMPLING_RING]
  UINT reserved[5];
  UINT tokens[SAMPLING_RING];
};

// The scratch of an output row, in uints: its row of the step block; each block's largest key and its sum of
// exp(logit - the block's largest); blocks that hold candidates and candidates' keys, both strided by lane.
CONSTANT SAMPLING_ROW_QUAD = 4;
CONSTANT SAMPLING_WORDS_PER_BLOCK = 3 + SAMPLING_BLOCK;

struct SampleParams {
  UINT vocabulary;
  UINT stride;    // of the logits, in floats
  UINT blocks;    // of the vocabulary
  UINT padded;    // blocks, rounded up to pick's workgroup
  UINT sequences; // slots in the state
  UINT capacity;  // rows that fit the step block
};

PUMICE_PARAMS_END

#ifdef __cplusplus
static_assert(sizeof(pumice::SamplingSlot) == 64 + 4 * pumice::SAMPLING_RING);
#endif
#endif
