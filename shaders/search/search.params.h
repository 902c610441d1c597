// The best continuations of beams, by log-probability: `scan` applies the rules for tokens and reduces each
// block of 32 logits, `pick` takes the best tokens of each beam, `merge` those of all beams of a search.
#ifndef PUMICE_SEARCH_PARAMS_H
#define PUMICE_SEARCH_PARAMS_H
#include "common/shared.h"

PUMICE_PARAMS_BEGIN

// Buffers.
CONSTANT SEARCH_STEP = 0;
CONSTANT SEARCH_STATE = 1;   // SearchSlot[sequences]
CONSTANT SEARCH_LOGITS = 2;  // [outputs, stride]; scan and pick overwrite those that a rule changes
CONSTANT SEARCH_SCRATCH = 3; // uint[outputs][row_words]
CONSTANT SEARCH_RESULT = 4;  // [outputs, out_stride]

// Specialisation constants. 0 is the workgroup's size.
CONSTANT SEARCH_SLICE_ID = 1; // blocks to a workgroup of scan

CONSTANT SEARCH_BLOCK = 32;       // logits
CONSTANT SEARCH_CANDIDATES = 128; // most continuations of a search
CONSTANT SEARCH_TOKENS = 8192;    // most tokens that the rules of a beam name
CONSTANT SEARCH_RANGES = 8;       // most ranges of tokens that they forbid
CONSTANT SEARCH_NONE = 0xffffffffu;

// A beam and the rules for its next token. Written by runtime/kernel/search/search.h.
struct SearchSlot {
  float score;          // the sum of its tokens' log-probabilities
  UINT beams;           // of its search, in as many outputs from this one on; 0: not the first of its search
  UINT wanted;          // continuations of the search
  UINT after_softmax;   // 1: rules change log-probabilities; 0: they change logits
  UINT forced;          // the only token that may come, whose log-probability is 0; or SEARCH_NONE
  UINT first_timestamp; // from this token on, tokens are times: see SearchRules; or SEARCH_NONE
  float penalty;        // of `penalised` tokens: negative scores are multiplied by it, others divided
  UINT forbidden;       // the number of forbidden tokens in `tokens`; after those come the penalised ones
  UINT penalised;
  UINT ranges;
  UINT reserved[6];
  UINT bounds[2 * SEARCH_RANGES]; // of forbidden tokens: the first, and the one after the last
  UINT tokens[SEARCH_TOKENS];     // each once
};

// The scratch of an output row, in uints: each block's largest key, its largest key before the rules, and its
// sum of exp(logit - largest) of the logits that probabilities are relative to; then the row's best tokens
// and their scores.
CONSTANT SEARCH_MAXIMA = 0; // in words per block
CONSTANT SEARCH_TOPS = 1;
CONSTANT SEARCH_SUMS = 2;
CONSTANT SEARCH_WORDS_PER_BLOCK = 3;

// A row of the result belongs to the first beam of a search: for each continuation, best first, the number of
// its beam, its token and its score, as floats. A score of minus infinity: there are no more.
CONSTANT SEARCH_RESULT_COLUMNS = 3;

struct SearchParams {
  UINT vocabulary;
  UINT stride; // of the logits, in floats
  UINT out_stride;
  UINT blocks;     // of the vocabulary
  UINT padded;     // blocks, rounded up
  UINT row_words;  // of the scratch
  UINT candidates; // of a search, and of a row: at most SEARCH_CANDIDATES
  UINT sequences;  // slots in the state
  UINT capacity;   // rows that fit the step block
};

PUMICE_PARAMS_END

#ifdef __cplusplus
static_assert(sizeof(pumice::SearchParams) == 36);
static_assert(sizeof(pumice::SearchSlot) == 4 * (16 + 2 * pumice::SEARCH_RANGES + pumice::SEARCH_TOKENS));
#endif
#endif
