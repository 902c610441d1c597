// result[row, head] = softmax(scale * q[row, head] . keys + bias) * values, over the positions that the row
// sees.
#ifndef PUMICE_ATTENTION_PARAMS_H
#define PUMICE_ATTENTION_PARAMS_H
#include "common/cache_parts.h"
#include "common/load.h"
#include "common/shared.h"

PUMICE_PARAMS_BEGIN

// Buffers. The cache's layout is described in runtime/kernel/cache_layout.h.
CONSTANT ATTENTION_STEP = 0;
CONSTANT ATTENTION_Q = 1;      // [rows, q_stride]
CONSTANT ATTENTION_KEYS = 2;   // one layer's
CONSTANT ATTENTION_VALUES = 3; // one layer's
CONSTANT ATTENTION_RESULT = 4; // [rows, result_stride]
CONSTANT ATTENTION_SUMS =
    5; // [rows, sums_stride]: for each head its largest score times log2(e), and the sum of its weights
CONSTANT ATTENTION_BIAS_TABLE = 6;   // [buckets, heads]
CONSTANT ATTENTION_BIAS_SCORES = 6;  // [rows, bias_stride], in its place: see position_scores.params.h
CONSTANT ATTENTION_SINKS = 6;        // [heads], in place of the table
CONSTANT ATTENTION_BIAS_BUCKETS = 7; // of distances from -max_distance to max_distance, or [places, places]
CONSTANT ATTENTION_CHOSEN = 7;       // in their place: CHOOSE_RESULT (attention/chosen_positions.params.h)
// Inputs of a kernel that also rotates and stores, as in position/rotary_store.params.h.
CONSTANT ATTENTION_K = 8;      // [rows, k_stride]
CONSTANT ATTENTION_V = 9;      // [rows, v_stride]
CONSTANT ATTENTION_TABLE = 10; // ROTARY_TABLE
// For each row, head and span of positions: head_dim weighted sums, not divided by the sum of the weights,
// then the span's largest score and the sum of its weights. [rows of the dispatch, heads, spans,
// head_dim + 2]
// They take the places of buffers that go unused then: kernels for any device have no more than eight.
CONSTANT ATTENTION_SPANS = 5;     // written where positions are split, in place of the kept sums
CONSTANT ATTENTION_COUNTERS = 7;  // ATTENTION_SPLIT_LAST: of workgroups, zeros before and after a launch
CONSTANT ATTENTION_ALL_SPANS = 1; // read by attention_combine, in place of the queries
// cpu8 only: for each row and head head_dim weighted sums, the largest score, and each lane's sum of weights.
// [rows, heads, head_dim + 9]
CONSTANT ATTENTION_CARRIED = 8;
// Inputs of a kernel that also computes queries, keys and values from x, by a product as in
// matmul/matmul.params.h. It writes them to ATTENTION_Q, K and V, which are views of one row. Such kernels do
// not use the other buffers with the same slot numbers.
CONSTANT ATTENTION_X = 5;
CONSTANT ATTENTION_WEIGHTS = 6;
CONSTANT ATTENTION_SCALES = 7;
CONSTANT ATTENTION_PROJECTION_BIAS = 11;

// Texels, for LOAD_TEXEL (common/texels.h).
CONSTANT ATTENTION_KEY_TEXELS = 0;
CONSTANT ATTENTION_VALUE_TEXELS = 1;
CONSTANT ATTENTION_KEY_DWORD_TEXELS = 2;
CONSTANT ATTENTION_VALUE_DWORD_TEXELS = 3;

// Specialisation constants, each with a number of its own. 0 is the workgroup's size.
CONSTANT ATTENTION_HEAD_DIM_ID = 1;
CONSTANT ATTENTION_CAPPED_ID = 2; // 1: scores are capped
CONSTANT ATTENTION_MASK_ID = 3;   // ATTENTION_MASK_*
CONSTANT ATTENTION_BIASED_ID = 4; // scores have a bias by: 1: distance; 2: distance and content; 3: place
// Positions of a sequence that share an entry of the step's cache_indirection: 1 of beams, or a page's; 0:
// there is none.
CONSTANT ATTENTION_SHARED_ID = 5;
CONSTANT ATTENTION_HEADS_ID = 6;  // heads of one group to a workgroup
CONSTANT ATTENTION_TOKENS_ID = 7; // rows of the step to a workgroup
CONSTANT ATTENTION_KEEP_ID = 8;   // 1: the largest scores and the sums are written too
CONSTANT ATTENTION_UNROLL_ID = 9; // 1: inner loops are unrolled; cpu8 only
CONSTANT ATTENTION_LOAD_ID = 10;  // LOAD_*, of queries and of what a kernel projects from; cpu8 only
// Where the kernel rotates too: as in position/rotary_store.params.h.
CONSTANT ATTENTION_PAIRS_ID = 11;
CONSTANT ATTENTION_ROTARY_DIM_ID = 12;
CONSTANT ATTENTION_NORMS_ID = 13;
// Where it projects too.
CONSTANT ATTENTION_EPILOGUE_ID = 14; // EPILOGUE_BIAS, EPILOGUE_ROW_SCALE
CONSTANT ATTENTION_BLOCKS_ID = 15;   // of 32 along x
CONSTANT ATTENTION_K_TILE_ID = 16;   // the keys' first tile of the weight, and the values'
CONSTANT ATTENTION_V_TILE_ID = 17;
CONSTANT ATTENTION_SCALE_COLUMNS_ID = 18; // EPILOGUE_ROW_SCALE, as in MatmulParams
CONSTANT ATTENTION_SCALE_SUMS_ID = 19;
CONSTANT ATTENTION_SCALE_EPS_ID = 20; // its bits
// The portable kernel adds up the positions of each span first, then the spans in order.
CONSTANT ATTENTION_SPAN_ID = 21;  // positions of a span
CONSTANT ATTENTION_SPLIT_ID = 22; // ATTENTION_SPLIT_*; 0: a workgroup takes all spans
CONSTANT ATTENTION_SPLIT_APART = 1; // it takes one span, and attention_combine adds up the spans
CONSTANT ATTENTION_SPLIT_LAST = 2;  // as 1, but the last workgroup of a row's heads adds them up
// cm only.
CONSTANT ATTENTION_ROWS_ID = 23;  // queries of a workgroup: heads times tokens, rounded up
CONSTANT ATTENTION_GROUP_ID = 24; // invocations of a subgroup
CONSTANT ATTENTION_M_ID = 25;     // sizes of the matrices
CONSTANT ATTENTION_N_ID = 26;
CONSTANT ATTENTION_K_ID = 27;
// Of a kernel that rotates too, as in rotary_store.params.h.
CONSTANT ATTENTION_GROWTH_ID = 28;
CONSTANT ATTENTION_GROWTH_LENGTH_ID = 29;
CONSTANT ATTENTION_SINKS_ID = 30;           // 1: each head has a sink, see AttentionArgs
CONSTANT ATTENTION_CHUNKED_ID = 31;         // 1: a row sees its chunk of `window` positions
CONSTANT ATTENTION_GROWTH_START_ID = 32;    // as ATTENTION_GROWTH_ID
CONSTANT ATTENTION_VALUES_ARE_KEYS_ID = 33; // 1: ATTENTION_VALUES is ATTENTION_KEYS, laid out as keys
CONSTANT ATTENTION_PARTS_ID = 34;           // CACHE_PARTS_*: what of the cache the dispatch has
// Positions in parts: a row's sums go from one dispatch to the next, in ATTENTION_SPANS as one span, or in
// ATTENTION_CARRIED.
CONSTANT ATTENTION_CARRY_ID = 35;   // ATTENTION_CARRY_*, added up
CONSTANT ATTENTION_CARRY_TAKES = 1; // a dispatch before this one left sums
CONSTANT ATTENTION_CARRY_LEAVES = 2;
// With a bias by content, and the first also with one by place.
CONSTANT ATTENTION_BUCKETS_ID = 36;     // of distances; by place: the places of an input
CONSTANT ATTENTION_BIAS_STRIDE_ID = 37; // in floats
CONSTANT ATTENTION_PICTURES_ID = 38; // 1: a row with PROMPT_ROW sees up to the end in its detail of the step
CONSTANT ATTENTION_CACHE_LOAD_ID = 39; // LOAD_*, of keys and values; cpu8 only
// Where the kernel rotates too: as in position/rotary_store.params.h.
CONSTANT ATTENTION_PLACES_ID = 40;
CONSTANT ATTENTION_TEXT_PAIRS_ID = 41;
CONSTANT ATTENTION_DOWN_PAIRS_ID = 42;
CONSTANT ATTENTION_PATCH_WINDOWS_ID =
    43; // 1: a row is a patch, which sees those of its window (common/step.h)

// With the bidirectional mask.
CONSTANT ATTENTION_RUN_ID = 44;    // not 0: an input is runs of so many rows, and a row sees those of its own
CONSTANT ATTENTION_JOINED_ID = 45; // above 1: so many rows of an input have become one of its first rows

CONSTANT ATTENTION_DOT_SUMS_ID = 46; // 2 or 8: sums of each dot product, added up at the end; cpu8 only

CONSTANT ATTENTION_HELD_ID = 47;  // cm: 1: queries are kept in registers
CONSTANT ATTENTION_APART_ID = 48; // cm: 1: keys and values of a tile have memory of their own
CONSTANT ATTENTION_CHOSEN_ID = 49; // portable: not 0: a row sees chosen positions alone, in so many words

// The last: setting a constant sets those before it to 0, and this one must not be.
CONSTANT ATTENTION_AHEAD_ID =
    50; // cm, portable: quads of keys, and of values, that an invocation loads ahead

CONSTANT ATTENTION_MATRIX_KEYS = 32; // cm: positions of a tile

// Which positions a row sees.
CONSTANT ATTENTION_MASK_CAUSAL = 0; // its sequence's, up to its own position
// All positions of its own input. Several inputs lie in one sequence of the cache.
CONSTANT ATTENTION_MASK_BIDIRECTIONAL = 1;
// All positions of the encoder's input that its sequence reads, in such a cache.
CONSTANT ATTENTION_MASK_CROSS = 2;
CONSTANT ATTENTION_MASK_CAUSAL_INPUT = 3; // its encoder input's, up to its own position

struct AttentionParams {
  UINT q_first;       // index of the first float: a view may begin where a descriptor must not
  UINT q_stride;      // in floats
  UINT result_stride; // in floats
  UINT sums_stride;   // in floats
  UINT heads;
  UINT kv_heads;
  UINT capacity;       // positions of one sequence in the cache, or of a page
  UINT position_limit; // positions from here on are in no cache
  UINT window;         // positions that a row may see on each side, its own included; 0: all
  UINT context;        // positions that attention_weights writes of each head
  UINT details;        // where the sections of the step block begin (common/step.h), in quads
  UINT sequence_quads;
  UINT cache_indirection;
  UINT indirection_entries; // that each sequence has there
  UINT sequences;           // in the cache, or pages
  UINT max_distance;        // of the bias: all larger distances share one bucket
  float scale;                // of a score; divided by the cap where there is one
  float cap;                  // a capped score is cap * tanh(score / cap)
  // As in RotaryStoreParams, for a kernel that rotates too.
  UINT k_stride;
  UINT v_stride;
  float magnitude;
  float norm_eps;
  float norm_offset;
  UINT spans;      // the most spans of one row, where positions are split
  UINT first_row;  // the step's row that the dispatch begins with
  UINT part_first; // the first position or sequence of the cache that the dispatch has
};

// For a cpu8 kernel that does not rotate: the addresses of ATTENTION_Q, KEYS and VALUES, for LOAD_UNIFORM.
struct QueryParams {
  ADDRESS q;
  ADDRESS keys;
  ADDRESS values;
};

// For a kernel that projects too: the addresses of ATTENTION_WEIGHTS, ATTENTION_SCALES and ATTENTION_X, for
// LOAD_UNIFORM.
struct ProjectionParams {
  ADDRESS weights;
  ADDRESS scales;
  ADDRESS x;
};

PUMICE_PARAMS_END

#ifdef __cplusplus
static_assert(sizeof(pumice::AttentionParams) == 104 && sizeof(pumice::QueryParams) == 24 &&
              sizeof(pumice::ProjectionParams) == 24);
#endif
#endif
