// Lets an attention kernel rotate its own queries and store its head's key and value in the cache. The including file may
// define KEEP_ROTATED(at, number): what becomes of dimension at % DIM_PADDED of query at / DIM_PADDED.
#include "attention/attention.params.h"
#include "position/cos_sin.glsl"
#include "position/rotary_store.params.h"

layout(constant_id = ATTENTION_PAIRS_ID) const uint PAIRS = ROTARY_PAIRS_NONE;
layout(constant_id = ATTENTION_ROTARY_DIM_ID) const uint ROTARY_DIM = 0;
layout(constant_id = ATTENTION_NORMS_ID) const uint NORMS = 0;
layout(constant_id = ATTENTION_GROWTH_ID) const uint GROWTH = 0;
layout(constant_id = ATTENTION_GROWTH_LENGTH_ID) const uint GROWTH_LENGTH = 0;
layout(constant_id = ATTENTION_GROWTH_START_ID) const uint GROWTH_START = 0;
layout(constant_id = ATTENTION_PLACES_ID) const uint PLACES = ROTARY_PLACES_NONE;
layout(constant_id = ATTENTION_TEXT_PAIRS_ID) const uint TEXT_PAIRS = 0;
layout(constant_id = ATTENTION_DOWN_PAIRS_ID) const uint DOWN_PAIRS = 0;

const uint LOCAL_HEADS = HEADS + 2; // queries, their key and its value
#define ONE_ROW
#ifdef WEIGHT_TYPE
#define ROW_BUFFER COHERENT_BUFFER
#else
#define ROW_BUFFER READ_BUFFER
#endif
#define SLOT_Q ATTENTION_Q
#define SLOT_K ATTENTION_K
#define SLOT_V ATTENTION_V
#define SLOT_TABLE ATTENTION_TABLE
#define SLOT_KEYS ATTENTION_KEYS
#define SLOT_VALUES ATTENTION_VALUES
#define PART_FIRST p.part_first
#include "position/rotary.glsl"

#ifndef KEEP_ROTATED
shared float rotated[HEADS * DIM_PADDED];
#define KEEP_ROTATED(at, number) rotated[at] = number
#endif

uint global_head(uint local_head) {
  if (local_head < HEADS) return query_head(local_head);
  return p.heads + (local_head - HEADS) * p.kv_heads + kv_head();
}

void keep_query(uint row, uint local_head, uint query, uint quad, vec4 a) {
  [[unroll]] for (uint j = 0; j < 4; ++j) KEEP_ROTATED(local_head * DIM_PADDED + quad * 4u + j, a[j]);
}
