// Rotates queries and keys by their positions (Su et al., RoFormer, 2021) and stores keys and values in the
// cache (runtime/kernel/cache_layout.h). A root-mean-square norm over each head can come before the rotation
// or after it. Without key heads it only rotates queries.
#ifndef PUMICE_ROTARY_STORE_PARAMS_H
#define PUMICE_ROTARY_STORE_PARAMS_H
#include "common/cache_parts.h"
#include "common/shared.h"

PUMICE_PARAMS_BEGIN

// Buffers.
CONSTANT ROTARY_STEP = 0;
CONSTANT ROTARY_Q = 1; // [rows, q_stride]
CONSTANT ROTARY_K = 2; // [rows, k_stride]
CONSTANT ROTARY_V = 3; // [rows, v_stride]
// For each pair of dimensions: revolutions per position, a fraction of 64 bits, high dword first. Then the
// weights of the queries' norm and of the keys' norm, head_dim floats each, if they have norms.
CONSTANT ROTARY_TABLE = 4;
CONSTANT ROTARY_RESULT = 5; // [rows, out_stride], the rotated queries
CONSTANT ROTARY_KEYS = 6;   // the cache
CONSTANT ROTARY_VALUES = 7;

// Specialisation constants. 0 is the workgroup's size, a multiple of 8.
CONSTANT ROTARY_PAIRS_ID = 1; // ROTARY_PAIRS_*
CONSTANT ROTARY_HEAD_DIM_ID = 2;
CONSTANT ROTARY_DIM_ID = 3;   // the first dimensions of a head, which are rotated: even
CONSTANT ROTARY_HEADS_ID = 4; // heads to a workgroup, counting queries, then keys, then values
CONSTANT ROTARY_NORMS_ID = 5; // ROTARY_NORM_*, added up
// Queries are multiplied by 1 + growth * log(1 + floor((position + start) / length)).
CONSTANT ROTARY_GROWTH_ID = 6;        // its bits
CONSTANT ROTARY_GROWTH_LENGTH_ID = 7; // 0: they do not grow
CONSTANT ROTARY_GROWTH_START_ID = 8;
CONSTANT ROTARY_PARTS_ID = 9; // CACHE_PARTS_*: what of the cache the launch has
// Where pairs turn with parts of a place in a picture (M-RoPE, Qwen 2 VL): the first pairs turn with the
// text's place, the next ones with it and the place down, the others with it and the place across. Interleaved
// (Qwen 3 VL), the three take turns for as long as each has pairs left, and what is left turns with the text's.
CONSTANT ROTARY_PLACES_ID = 10; // ROTARY_PLACES_*
CONSTANT ROTARY_TEXT_PAIRS_ID = 11;
CONSTANT ROTARY_DOWN_PAIRS_ID = 12;
CONSTANT ROTARY_SHARED_ID = 13; // the positions of a page; 0: there are none

CONSTANT ROTARY_PAIRS_NONE = 0;
CONSTANT ROTARY_PAIRS_NEIGHBOURING = 1; // dimension 2i with 2i + 1
CONSTANT ROTARY_PAIRS_HALF_SPLIT = 2;   // dimension i with i + rotary_dim / 2
// In each half of what is rotated, dimension i with i + rotary_dim / 4; the second half has the first pairs.
CONSTANT ROTARY_PAIRS_QUARTERS = 3;

CONSTANT ROTARY_PLACES_NONE = 0;    // all pairs turn with the position
CONSTANT ROTARY_PLACES_TEXT = 1;    // of a decoder
CONSTANT ROTARY_PLACES_PATCHES = 2; // of an encoder of pictures: the text's place is 0
CONSTANT ROTARY_PLACES_INTERLEAVED = 3; // of a decoder

CONSTANT ROTARY_NORM_QUERIES = 1;
CONSTANT ROTARY_NORM_KEYS = 2;
CONSTANT ROTARY_NORM_AFTER = 4;  // the rotation, which must not change the heads' lengths
CONSTANT ROTARY_NORM_VALUES = 8; // a norm without weights

struct RotaryStoreParams {
  UINT heads;
  UINT kv_heads;
  UINT value_heads; // kv_heads, or 0: values are keys
  UINT q_stride;    // in floats
  UINT k_stride;
  UINT v_stride;
  UINT out_stride;
  UINT capacity;       // positions of one sequence in the cache, or of a page
  UINT position_limit; // positions from here on are not stored
  UINT sequences;      // in the cache, or pages
  float magnitude;     // of the cosines and sines
  float norm_eps;
  float norm_offset; // added to the norms' weights
  UINT part_first;   // the first position or sequence that the launch has
  UINT details;      // where the sections of the step block begin (common/step.h), in quads
  UINT sequence_quads;
  UINT cache_indirection;
  UINT indirection_entries; // as in AttentionParams
};

PUMICE_PARAMS_END

#ifdef __cplusplus
static_assert(sizeof(pumice::RotaryStoreParams) == 72);
#endif
#endif
