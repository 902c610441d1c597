// Logits to tokens: `scan` adds biases and penalties and reduces each block of 32 logits, `pick` chooses a
// token for each output row and writes the next step's rows.
#ifndef PUMICE_SAMPLING_PARAMS_H
#define PUMICE_SAMPLING_PARAMS_H
#include "common/shared.h"

PUMICE_PARAMS_BEGIN

// Buffers.
CONSTANT SAMPLING_STEP = 0;
CONSTANT SAMPLING_STATE = 1;   // SamplingSlot[sequences]
CONSTANT SAMPLING_LOGITS = 2;  // [outputs, stride]; scan overwrites those with a bias or a penalty
CONSTANT SAMPLING_SCRATCH = 3; // uint[outputs][SAMPLING_ROW_QUAD + padded * SAMPLING_WORDS_PER_BLOCK]
CONSTANT SAMPLING_FORMS = 4;   // uint[]: tables of forms, then masks of rows behind guesses, a word for each block

// Specialisation constants. 0 is the workgroup's size.
CONSTANT SAMPLING_SLICE_ID = 1; // blocks to a workgroup of scan

CONSTANT SAMPLING_BLOCK = 32;     // logits
CONSTANT SAMPLING_RING = 4096;    // tokens of a sequence that are kept, a power of two
CONSTANT SAMPLING_TYPICAL = 1024; // most tokens that typical sampling looks at
CONSTANT SAMPLING_BIASES = 1024;  // most logit biases of a sequence
CONSTANT SAMPLING_STOPS = 16;     // most stop tokens of a sequence
CONSTANT SAMPLING_MATCH = 256;    // a longer repetition counts as one of so many tokens
CONSTANT SAMPLING_BREAKERS = 262144; // tokens below this can be breakers
CONSTANT SAMPLING_TOP = 64;       // most tokens whose log-probabilities are reported beside the chosen one's
CONSTANT SAMPLING_REPORTS = 64;   // latest tokens whose reports are kept, a power of two
CONSTANT SAMPLING_MASK = 16384;   // words of a mask of tokens: most tokens of a vocabulary with one, by 32
CONSTANT SAMPLING_PLACES = 64;    // latest tokens whose places in a form are kept, a power of two
CONSTANT SAMPLING_UNFINISHED = 0xffffffffu;

// The filters, in the four bits that each has in a slot's order. The first is in the lowest; filters that would do nothing
// are left out.
CONSTANT SAMPLING_SIGMA = 1;
CONSTANT SAMPLING_TOP_K = 2;
CONSTANT SAMPLING_TYPICAL_P = 3;
CONSTANT SAMPLING_TOP_P = 4;
CONSTANT SAMPLING_MIN_P = 5;
CONSTANT SAMPLING_XTC = 6;
CONSTANT SAMPLING_TEMPERATURE = 7;
CONSTANT SAMPLING_END = 8; // behind all of them

// The log-probabilities that came with one token.
struct SamplingReport {
  float log_probability; // of the token itself
  UINT count;            // of those below, most probable first
  UINT tokens[SAMPLING_TOP];
  float log_probabilities[SAMPLING_TOP];
};

// One sequence's parameters and tokens. Written by runtime/kernel/sampling/sampling.h; pick appends tokens
// and their reports.
struct SamplingSlot {
  float temperature; // 0: take the largest logit
  float inverse_temperature;
  float typical_p; // 1 or more: off
  float top_p;     // 1 or more: off
  float log_min_p; // a very negative number: off
  float repeat_penalty;
  float inverse_repeat_penalty;
  float frequency_penalty;
  float presence_penalty;
  UINT repeat_window; // 0: no penalties
  UINT top_k;         // 0: off
  UINT seed_low;
  UINT seed_high;
  UINT log_probabilities; // tokens to report beside the chosen one, 0: no report
  UINT bias_count;
  UINT stop_count;
  float top_n_sigma;    // 0: off
  float dynatemp_range; // 0: off
  float dynatemp_exponent;
  float xtc_probability; // 0: off
  float log_xtc_threshold;
  UINT mirostat; // 0: off
  float mirostat_tau;
  float mirostat_eta;
  float mirostat_mu;    // the most surprise that the next token may have, in bits; pick writes it
  float dry_multiplier; // 0: off
  float log2_dry_base;
  UINT dry_allowed_length;
  UINT dry_window;
  UINT dry_first; // n of the token after the latest breaker; pick writes it
  UINT masked; // not 0: only tokens of the mask may be drawn
  UINT form;   // where the table of the text's form begins, and 1; 0: it has none
  UINT order;  // of the filters
  UINT draft_masks; // where the masks of rows behind guesses begin among the forms, one behind the other
  UINT reserved[12];
  UINT stops[SAMPLING_STOPS];
  UINT bias_tokens[SAMPLING_BIASES]; // each once
  float biases[SAMPLING_BIASES];
  UINT finished_at;           // n of the first token n that is a stop token, or SAMPLING_UNFINISHED
  UINT count;                 // tokens appended so far
  UINT tokens[SAMPLING_RING]; // token n is tokens[n % SAMPLING_RING]
  SamplingReport reports[SAMPLING_REPORTS]; // that of token n is reports[n % SAMPLING_REPORTS]
  UINT dry_breakers[SAMPLING_BREAKERS / 32]; // a bit for each token
  UINT mask[SAMPLING_MASK]; // a bit for each token; of a row without guesses before it
  UINT places[SAMPLING_PLACES]; // in the form; where token n is sampled is places[n % SAMPLING_PLACES]; pick writes the next
};

// A form's table, in words: first these; then for each block of the vocabulary, 16 bits, the number of its page; for each
// place of the form, where its row begins; the pages, each the classes of 32 tokens, 16 bits; and the rows, which lie
// between each other: the word of a class holds place << 16 | the next place if the class may follow there, and otherwise
// another place's number or none. Places in the table count from its beginning.
CONSTANT SAMPLING_FORM_ROWS = 0;  // where the beginnings of rows are
CONSTANT SAMPLING_FORM_PAGES = 1; // where the pages are
CONSTANT SAMPLING_FORM_HEADER = 2;
CONSTANT SAMPLING_FORM_PAGE = SAMPLING_BLOCK / 2; // words of a page
CONSTANT SAMPLING_NOWHERE = 0xffffu;

// The scratch of an output row, in uints: its row of the step block; each block's largest key and its sum of
// exp(logit - the block's largest); blocks that hold candidates and candidates' keys, both strided by lane
// (before that, each token's count in the
// window, and above its 16 bits the longest repetition that the token would go on with). For a report, what the logits were before biases and
// penalties: each block's largest key and sum, and all keys.
CONSTANT SAMPLING_ROW_QUAD = 4;
CONSTANT SAMPLING_MAXIMA = 0; // in words per block
CONSTANT SAMPLING_SUMS = 1;
CONSTANT SAMPLING_BLOCKS = 2;
CONSTANT SAMPLING_KEYS = 3;
CONSTANT SAMPLING_RAW_MAXIMA = SAMPLING_KEYS + SAMPLING_BLOCK;
CONSTANT SAMPLING_RAW_SUMS = SAMPLING_RAW_MAXIMA + 1;
CONSTANT SAMPLING_RAW_KEYS = SAMPLING_RAW_SUMS + 1;
CONSTANT SAMPLING_WORDS_PER_BLOCK = SAMPLING_RAW_KEYS + SAMPLING_BLOCK;

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
static_assert(sizeof(pumice::SamplingReport) == 4 * (2 + 2 * pumice::SAMPLING_TOP));
static_assert(sizeof(pumice::SamplingSlot) ==
              4 * (48 + pumice::SAMPLING_STOPS + 2 * pumice::SAMPLING_BIASES + pumice::SAMPLING_RING +
                   pumice::SAMPLING_BREAKERS / 32 + pumice::SAMPLING_MASK + pumice::SAMPLING_PLACES) +
                  pumice::SAMPLING_REPORTS * sizeof(pumice::SamplingReport));
#endif
#endif
