// What the attention kernels share: the rows of a workgroup, the positions that they see, and where their keys and values
// lie. A workgroup takes HEADS heads of one group (gl_WorkGroupID.x) and TOKENS rows of the step (gl_WorkGroupID.y). All
// their queries share each load of a key or value.
#include "attention/attention.params.h"
#include "common/tanh.glsl"
#include "embedding/prompt_rows.params.h"
#define CACHE_F32 0
#define CACHE_F16 1
#define CACHE_Q8_0 2 // from here on: 32 numbers and their scale
#define CACHE_Q4_0 3
#ifndef KEY_TYPE // of the keys, and the values have another
#define KEY_TYPE CACHE_TYPE
#define VALUE_TYPE CACHE_TYPE
#endif

const uint QUERIES = HEADS * TOKENS;
#if KEY_TYPE >= CACHE_Q8_0 || VALUE_TYPE >= CACHE_Q8_0
const uint DIM_PADDED = (HEAD_DIM + 31) / 32 * 32;
#else
const uint DIM_PADDED = (HEAD_DIM + 7) / 8 * 8;
#endif
#if KEY_TYPE >= CACHE_Q8_0
const uint KEY_STEP = 32; // dimensions of a key that are decoded together
const uint KEY_STEP_QUADS = KEY_TYPE == CACHE_Q8_0 ? 17 : 9; // quads of 16 bytes, for eight positions
#elif KEY_TYPE == CACHE_F16
const uint KEY_STEP = 8;
const uint KEY_STEP_QUADS = 8;
#else
const uint KEY_STEP = 4;
const uint KEY_STEP_QUADS = 8;
#endif
const uint KEY_STEPS = DIM_PADDED / KEY_STEP;
// Quads of a tile, which has the keys, or the values, of eight positions.
const uint KEY_TILE_QUADS = KEY_STEPS * KEY_STEP_QUADS;
#if VALUE_TYPE >= CACHE_Q8_0
const uint VALUE_SCALE_QUADS = DIM_PADDED / 32; // which come first
const uint VALUE_TILE_QUADS = VALUE_SCALE_QUADS * (VALUE_TYPE == CACHE_Q8_0 ? 17 : 9);
#elif VALUE_TYPE == CACHE_F16
const uint VALUE_TILE_QUADS = DIM_PADDED;
#else
const uint VALUE_TILE_QUADS = DIM_PADDED * 2;
#endif

layout(constant_id = ATTENTION_SINKS_ID) const uint SINKS = 0;
layout(constant_id = ATTENTION_CHUNKED_ID) const uint CHUNKED = 0;
layout(constant_id = ATTENTION_VALUES_ARE_KEYS_ID) const uint VALUES_ARE_KEYS = 0;
layout(constant_id = ATTENTION_PARTS_ID) const uint PARTS = CACHE_PARTS_NONE;
layout(constant_id = ATTENTION_CARRY_ID) const uint CARRY = 0;
const bool CARRY_TAKES = (CARRY & ATTENTION_CARRY_TAKES) != 0u, CARRY_LEAVES = (CARRY & ATTENTION_CARRY_LEAVES) != 0u;
layout(constant_id = ATTENTION_BUCKETS_ID) const uint BUCKETS = 1; // of distances, or the places of an input
layout(constant_id = ATTENTION_BIAS_STRIDE_ID) const uint BIAS_STRIDE = 0; // in floats
layout(constant_id = ATTENTION_PICTURES_ID) const uint PICTURES = 0;
layout(constant_id = ATTENTION_PATCH_WINDOWS_ID) const uint PATCH_WINDOWS = 0;
layout(constant_id = ATTENTION_RUN_ID) const uint RUN = 0;
layout(constant_id = ATTENTION_JOINED_ID) const uint JOINED = 0;
READ_BUFFER(uint, step_words, ATTENTION_STEP);
const bool PAGED = SHARED > 1u; // and a tile of keys lies in one page
const uint PAGE = PAGED ? SHARED : 1u; // positions of an entry
READ_BUFFER(float, bias_table, ATTENTION_BIAS_TABLE);
READ_BUFFER(float, sinks, ATTENTION_SINKS);
READ_BUFFER(float, bias_buckets, ATTENTION_BIAS_BUCKETS);
layout(constant_id = ATTENTION_CHOSEN_ID) const uint CHOSEN = 0; // words of a row
READ_BUFFER(uint, chosen, ATTENTION_CHOSEN);

// Scores are clamped to this, so that no difference of two overflows.
const float SCORE_LIMIT = 1e30;
const float NO_SCORE = -3e38; // below every score: the maximum over nothing
const float LOG2_E = 1.4426950408889634;

uint group_heads() { return p.heads / p.kv_heads; }
uint group_workgroups() { return (group_heads() + HEADS - 1u) / HEADS; } // workgroups for all heads of a group
uint kv_head() { return gl_WorkGroupID.x / group_workgroups(); }
uint first_token() { return p.first_row + gl_WorkGroupID.y * TOKENS; }

// Heads and tokens past the end repeat the last one, so no load needs a guard. Their results are not stored.
uint head_in_group(uint m) { return (gl_WorkGroupID.x % group_workgroups()) * HEADS + m % HEADS; }
uint query_head(uint m) { return kv_head() * group_heads() + min(head_in_group(m), group_heads() - 1u); }
bool is_stored(uint m, uint rows) {
  const uint token = first_token() + m / HEADS;
  // A row whose sequence is in another part is stored by that part's dispatch.
  if (PARTS == CACHE_PARTS_SEQUENCES) {
    if (step_block[STEP_HEADER_QUADS + min(token, rows - 1u)].z - p.part_first >= p.sequences) return false;
  }
  return head_in_group(m) < group_heads() && token < rows;
}

// The positions that a row of the step sees of the dispatch's part of the cache: first to last, both included; none where
// first > last.
struct Row {
  uint source; // whose positions it sees: a sequence's, or the input's that begins at this position
  int position;
  int first;
  int last;
  uint index; // among the step's rows
};

// `in_part`: false: `first` is the first position that the row sees in any part.
Row read_row(uint token, uint rows, bool in_part) {
  const uint at = min(token, rows - 1u);
  const uvec4 row = step_block[STEP_HEADER_QUADS + at];
  uvec2 range = uvec2(row.w, row.y + 1u); // the first position, and the one after the last
  if (MASK == ATTENTION_MASK_BIDIRECTIONAL) range.y = step_block[p.details + at].w;
  if (PICTURES == 1u && (row.x & PROMPT_ROW) != 0u) range.y = max(range.y, step_block[p.details + at].w);
  if (MASK == ATTENTION_MASK_CROSS) range = step_block[p.sequence_quads + row.z].xy;
  Row result;
  result.source = MASK == ATTENTION_MASK_CAUSAL ? row.z : range.x;
  if (PATCH_WINDOWS == 1u) {
    range.x = row.x >> STEP_WINDOW_BITS;
    range.y = range.x + bitfieldExtract(row.x, 0, int(STEP_WINDOW_BITS));
  }
  if (JOINED > 1u) range.y = range.x + (range.y - range.x) / max(JOINED, 1u);
  if (RUN > 0u) {
    range.x = row.y - (row.y - row.w) % max(RUN, 1u);
    range.y = min(range.y, range.x + RUN);
  }
  result.position = int(row.y);
  result.index = at;
  result.last = int(min(range.y, p.position_limit)) - 1;
  result.first = int(range.x);
  if (PARTS != CACHE_PARTS_POSITIONS && !PAGED) result.first = max(result.first, result.last - int(p.capacity - 1u));
  if (p.window != 0u) {
    const uint before = CHUNKED == 1u ? (row.y - min(row.w, row.y)) % p.window : p.window - 1u;
    result.first = max(result.first, int(row.y) - int(before));
    if (MASK == ATTENTION_MASK_BIDIRECTIONAL) result.last = min(result.last, int(row.y + p.window) - 1);
  }
  if (PARTS == CACHE_PARTS_POSITIONS && in_part) result.first = max(result.first, int(p.part_first));
  if (PARTS == CACHE_PARTS_SEQUENCES) {
    result.source -= p.part_first;
    if (result.source >= p.sequences) result.last = -1;
  }
  return result;
}

Row read_row(uint token, uint rows) { return read_row(token, rows, true); }

// The positions of one source that any row of the workgroup sees: first to last, both included; none where first > last.
// Kernels go over one such range after the other: each belongs to the first row with its source.
struct SourceRange {
  uint source;
  int first;
  int last;
};

// The range of row `lead`. It is empty (last is -1) where its rows see nothing, or where an earlier row has the source.
SourceRange source_range(Row row[TOKENS], uint lead) {
  SourceRange range = SourceRange(row[0].source, int(p.position_limit), -1);
  [[unroll]] for (uint t = 1; t < TOKENS; ++t) range.source = lead == t ? row[t].source : range.source;
  bool again = false;
  [[unroll]] for (uint t = 0; t < TOKENS; ++t) {
    if (row[t].source == range.source && row[t].first <= row[t].last) {
      range.first = min(range.first, row[t].first);
      range.last = max(range.last, row[t].last);
    }
    again = again || (t < lead && row[t].source == range.source);
  }
  if (again) range.last = -1;
  return range;
}

// Of a position from the row's first to its last.
bool is_chosen(Row row, int position) {
  if (CHOSEN == 0u) return true;
  return (chosen[row.index * CHOSEN + uint(position) / 32u] >> (uint(position) & 31u) & 1u) != 0u;
}

bool sees(Row row, SourceRange range, int position) {
  return row.source == range.source && position >= row.first && position <= row.last && is_chosen(row, position);
}

// The tiles of eight positions that all rows see whole: from x to before y, within the range's tiles.
ivec2 whole_tiles(Row row[TOKENS], SourceRange range) {
  const int begin = range.first >> 3, end = max((range.last >> 3) + 1, begin);
  ivec2 whole = ivec2(begin, end);
  [[unroll]] for (uint t = 0; t < TOKENS; ++t) {
    const bool sees_none = row[t].source != range.source || row[t].first > row[t].last;
    whole.x = max(whole.x, sees_none ? end : (row[t].first + 7) >> 3);
    whole.y = min(whole.y, sees_none ? begin : (row[t].last + 1) >> 3);
  }
  whole.x = min(whole.x, end);
  return ivec2(whole.x, max(whole.x, whole.y));
}

// The position that column 0 of the weights stands for.
int first_column(Row row) { return MASK == ATTENTION_MASK_CAUSAL ? 0 : int(row.source); }

// Where a sequence's keys and values of this workgroup's head begin, in tiles.
uint head_base(uint sequence) { return (sequence * p.kv_heads + kv_head()) * (p.capacity / 8u); }
// The same for a source: all inputs lie in sequence 0 of their cache.
uint source_base(uint source) { return head_base(MASK == ATTENTION_MASK_CAUSAL ? source : 0u); }

// `base` is its source's. Beams share positions: one position may lie in the cache of another sequence. In a pool of pages
// each page is what otherwise a sequence of the cache is.
uint position_base(uint base, uint source, uint position) {
  if (SHARED == 0u) return base;
  const uint at = source * p.indirection_entries + min(position / PAGE, p.indirection_entries - 1u);
  return head_base(min(step_words[p.cache_indirection * 4u + at], p.sequences - 1u));
}

// Clamps a score to the limits. A NaN becomes the smallest score.
float finite_score(float score) { return mix(-SCORE_LIMIT, min(score, SCORE_LIMIT), score >= -SCORE_LIMIT); }

// The factor that takes sums made under the old maximum to the new one (online softmax). It is exactly 1 where the maximum
// stays: a block in which a row sees nothing must not change the row's sums.
float correction(float old_maximum, float new_maximum) {
  return old_maximum == new_maximum ? 1.0 : exp2(old_maximum - new_maximum);
}

// The factor of each query's dot products. LOG2_E is in it because the softmax uses exp2.
float score_scale() { return CAPPED == 1u ? p.scale : p.scale * LOG2_E; }

// A position's place in the input that begins at the row's source.
uint place_in_input(Row row, int position) { return min(uint(max(position - int(row.source), 0)), BUCKETS - 1u); }

uint bias_bucket(Row row, int position) {
  if (BIASED == 3u)
    return uint(bias_buckets[place_in_input(row, row.position) * BUCKETS + place_in_input(row, position)]);
  const int farthest = int(p.max_distance);
  return uint(bias_buckets[clamp(position - row.position, -farthest, farthest) + farthest]);
}

// The dot product of a scaled query and a key with the bias for their distance or their places.
float biased(float product, uint m, Row row, int position) {
  if (BIASED == 0u) return product;
  const uint bucket = bias_bucket(row, position);
  float bias;
  if (BIASED == 2u) { // the query with the position, and the position with the key, whose row is in this step too
    const uint key_row = min(uint(int(row.index) + position - row.position), step_block[0][ROWS_TOKENS] - 1u);
    bias = bias_table[row.index * BIAS_STRIDE + query_head(m) * BUCKETS + bucket] +
           bias_table[key_row * BIAS_STRIDE + (p.heads + query_head(m)) * BUCKETS + bucket];
  } else {
    bias = bias_table[bucket * p.heads + query_head(m)];
  }
  return fma(bias, CAPPED == 1u ? 1.0 / p.cap : LOG2_E, product);
}

// The score of a dot product that score_scale() is in already.
float final_score(float product, uint m, Row row, int position) {
  const float score = finite_score(biased(product, m, row, position));
  return CAPPED == 1u ? p.cap * LOG2_E * accurate_tanh(score) : score;
}

// What the softmax begins with: a sink is a score without a value.
float first_maximum(uint m) { return SINKS == 1u ? finite_score(sinks[query_head(m)] * LOG2_E) : NO_SCORE; }
const float FIRST_TOTAL = SINKS == 1u ? 1.0 : 0.0;

// The four signed bytes of a dword.
vec4 bytes_of(uint word) {
  const int i = int(word);
  return vec4(bitfieldExtract(i, 0, 8), bitfieldExtract(i, 8, 8), bitfieldExtract(i, 16, 8), i >> 24);
}

// Of 32 numbers of four bits, the first half as bytes, which the low halves of all bytes have, or the second.
uvec4 bytes_of_nibbles(uvec4 quad, uint which) {
  return ((quad >> which * 4u & 0x0f0f0f0fu) + 0x78787878u) ^ 0x80808080u;
}

// Columns after a row's last head, up to the next multiple of 32, are zeros.
uint columns() { return p.heads * HEAD_DIM; }
