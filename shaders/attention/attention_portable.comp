#version 460
// Attention for any device. A block has as many positions as the workgroup has invocations; blocks are counted from the
// sequence's start. While scores are computed, each invocation takes one position of the block. For the values it takes a
// few dimensions of every SLICES-th position. Sums are made over spans of SPAN positions, and the spans are added up in
// order: here, or where each span has a workgroup of its own by attention_combine or by the last of those workgroups. All give
// the same bits. A row's arithmetic does not depend on the rows that share its workgroup. The rotary kernels are for steps of
// one row. They also rotate the queries and the key, and store the key and the value in the cache.
// variant: f32 CACHE_TYPE=0
// variant: f16 CACHE_TYPE=1
// variant: q8_0 CACHE_TYPE=2
// variant: f16_q8_0 KEY_TYPE=1 VALUE_TYPE=2
// variant: q8_0_f16 KEY_TYPE=2 VALUE_TYPE=1
// variant: q4_0 CACHE_TYPE=3
// variant: q8_0_q4_0 KEY_TYPE=2 VALUE_TYPE=3
// variant: rope.f32 CACHE_TYPE=0 ROTARY
// variant: rope.f16 CACHE_TYPE=1 ROTARY
// variant: rope.q8_0 CACHE_TYPE=2 ROTARY
// variant: rope.q4_0 CACHE_TYPE=3 ROTARY
#extension GL_GOOGLE_include_directive : require
#include "common/types.glsl"
#include "attention/attention.params.h"

layout(local_size_x_id = 0) in;
layout(constant_id = ATTENTION_HEAD_DIM_ID) const uint HEAD_DIM = 64;
layout(constant_id = ATTENTION_CAPPED_ID) const uint CAPPED = 0;
layout(constant_id = ATTENTION_MASK_ID) const uint MASK = ATTENTION_MASK_CAUSAL;
layout(constant_id = ATTENTION_BIASED_ID) const uint BIASED = 0;
layout(constant_id = ATTENTION_SHARED_ID) const uint SHARED = 0;
layout(constant_id = ATTENTION_HEADS_ID) const uint HEADS = 1;
layout(constant_id = ATTENTION_TOKENS_ID) const uint TOKENS = 1;
layout(constant_id = ATTENTION_KEEP_ID) const uint KEEP = 0;
layout(constant_id = ATTENTION_SPAN_ID) const uint SPAN = 256;
layout(constant_id = ATTENTION_SPLIT_ID) const uint SPLIT = 0;
layout(push_constant) uniform Push { AttentionParams p; };
READ_BUFFER(uvec4, step_block, ATTENTION_STEP);
#ifdef ROTARY
#define CACHE_BUFFER COHERENT_BUFFER
#else
#define CACHE_BUFFER READ_BUFFER
READ_BUFFER(float, q, ATTENTION_Q);
#endif
CACHE_BUFFER(uvec4, keys, ATTENTION_KEYS);
CACHE_BUFFER(uvec4, values, ATTENTION_VALUES);
WRITE_BUFFER(float, result, ATTENTION_RESULT);
WRITE_BUFFER(float, sums, ATTENTION_SUMS);
COHERENT_BUFFER(float, spans, ATTENTION_SPANS);
COHERENT_BUFFER(uint, counters, ATTENTION_COUNTERS);

#include "attention/attention_rows.glsl"
#if KEY_TYPE < CACHE_Q8_0 && VALUE_TYPE < CACHE_Q8_0
#define STRAIGHT (TOKENS == 1 && SPLIT > 0u ? 1u : 0u)
#endif
#include "attention/attention_scores.glsl"
#include "attention/attention_spans.glsl"
#ifdef ROTARY
void keep_scaled(uint at, float number) { query[at] = number * score_scale(); }
#define KEEP_ROTATED keep_scaled
#include "attention/rotary_queries.glsl"
#endif

#if VALUE_TYPE == CACHE_F32
const uint VALUE_CHUNK = 4; // dimensions that an invocation sums up
#else
const uint VALUE_CHUNK = 8;
#endif
const uint CHUNKS = DIM_PADDED / VALUE_CHUNK; // no more than a workgroup has invocations
const uint SLICES = BLOCK / CHUNKS;
const uint PARTS_OF_BLOCK = 8; // whose maxima, and sums, are taken first
const bool EVEN_VALUES = (STRAIGHT == 1u ? BLOCK % (AHEAD * SLICES) : 1u) == 0u;

shared float weight[QUERIES * BLOCK]; // scores, then their exponentials
shared float partial[QUERIES * PARTS_OF_BLOCK];
// The sums of all slices, for one query at a time. Rows of so many floats let 32 neighbours store, and load, in as many banks.
const uint GATHERED_ROW = BLOCK + 32 / VALUE_CHUNK;
shared float gathered[GATHERED_ROW * VALUE_CHUNK];

shared uint page_bases[PAGED ? (BLOCK + PAGE - 1u) / PAGE : 1u]; // of the block's positions

#include "attention/attention_values.glsl"

// The largest of the block's scores of each query.
void block_maximum(out float largest[QUERIES]) {
  barrier();
  for (uint i = OWN; i < QUERIES * PARTS_OF_BLOCK; i += BLOCK) {
    float best = NO_SCORE;
    for (uint j = i % PARTS_OF_BLOCK; j < BLOCK; j += PARTS_OF_BLOCK) best = max(best, weight[i / PARTS_OF_BLOCK * BLOCK + j]);
    partial[i] = best;
  }
  barrier();
  [[unroll]] for (uint m = 0; m < QUERIES; ++m) {
    largest[m] = NO_SCORE;
    [[unroll]] for (uint i = 0; i < PARTS_OF_BLOCK; ++i) largest[m] = max(largest[m], partial[m * PARTS_OF_BLOCK + i]);
  }
}

const uint OWN_DIMS = (HEAD_DIM + BLOCK - 1) / BLOCK; // every BLOCK-th dimension is an invocation's
const uint SPANS_AHEAD = (16 + QUERIES * OWN_DIMS - 1) / (QUERIES * OWN_DIMS);
shared bool last_here;
// The merged spans so far, for each query.
float all_maximum[QUERIES];
float all_total[QUERIES];
float all_sum[QUERIES][OWN_DIMS];

// Add up what all invocations of the workgroup have for a span: of all queries, and of one.
void gather_totals(float own_total[QUERIES], out float total[QUERIES]) {
  barrier();
  [[unroll]] for (uint m = 0; m < QUERIES; ++m) weight[m * BLOCK + OWN] = own_total[m];
  barrier();
  for (uint i = OWN; i < QUERIES * PARTS_OF_BLOCK; i += BLOCK) {
    float part = 0.0;
    for (uint j = i % PARTS_OF_BLOCK; j < BLOCK; j += PARTS_OF_BLOCK) part += weight[i / PARTS_OF_BLOCK * BLOCK + j];
    partial[i] = part;
  }
  barrier();
  [[unroll]] for (uint m = 0; m < QUERIES; ++m) {
    total[m] = 0.0;
    [[unroll]] for (uint i = 0; i < PARTS_OF_BLOCK; ++i) total[m] += partial[m * PARTS_OF_BLOCK + i];
  }
}

void gather(float own_sum[VALUE_CHUNK], out float sum[OWN_DIMS]) {
  barrier();
  [[unroll]] for (uint i = 0; i < VALUE_CHUNK; ++i) gathered[i * GATHERED_ROW + OWN] = own_sum[i];
  barrier();
  [[unroll]] for (uint j = 0; j < OWN_DIMS; ++j) {
    sum[j] = 0.0;
    const uint d = min(OWN + j * BLOCK, HEAD_DIM - 1u);
    const uint at = d % VALUE_CHUNK * GATHERED_ROW + d / VALUE_CHUNK;
    for (uint slice = 0; slice < SLICES; ++slice) sum[j] += gathered[at + slice * CHUNKS];
  }
}

void add_span(uint m, float maximum, float total, float sum[OWN_DIMS]) {
  const Rescale rescale = merge(all_maximum[m], maximum);
  all_maximum[m] = rescale.maximum;
  all_total[m] = merged(all_total[m], total, rescale);
  [[unroll]] for (uint j = 0; j < OWN_DIMS; ++j) all_sum[m][j] = merged(all_sum[m][j], sum[j], rescale);
}

// Stores the sums of the row's span number `span`.
void store_span(uint m, uint rows, uint span, float maximum, float total, float sum[OWN_DIMS]) {
  if (!is_stored(m, rows)) return;
  const uint at = span_place(first_token() + m / HEADS - p.first_row, query_head(m), span);
  [[unroll]] for (uint j = 0; j < OWN_DIMS; ++j) {
    if (OWN + j * BLOCK < HEAD_DIM) spans[at + OWN + j * BLOCK] = sum[j];
  }
  if (OWN == 0u) {
    spans[at + HEAD_DIM] = maximum;
    spans[at + HEAD_DIM + 1u] = total;
  }
}

void start_sums(uint m, uint rows) {
  all_maximum[m] = first_maximum(m);
  all_total[m] = FIRST_TOTAL;
  [[unroll]] for (uint j = 0; j < OWN_DIMS; ++j) all_sum[m][j] = 0.0;
  if (!CARRY_TAKES || !is_stored(m, rows)) return;
  const uint at = span_place(first_token() + m / HEADS - p.first_row, query_head(m), 0u);
  all_maximum[m] = spans[at + HEAD_DIM];
  all_total[m] = spans[at + HEAD_DIM + 1u];
  [[unroll]] for (uint j = 0; j < OWN_DIMS; ++j) all_sum[m][j] = spans[at + min(OWN + j * BLOCK, HEAD_DIM - 1u)];
}

// Where the positions are split: the workgroup's span.
struct OwnSpan {
  int begin;
  uint place; // counted from the row's first span
  bool seen;
};

OwnSpan own_span(Row row, uint rows) {
  OwnSpan own = OwnSpan(span_begin(row, gl_WorkGroupID.z), gl_WorkGroupID.z, has_span(row, gl_WorkGroupID.z));
  if (PARTS == CACHE_PARTS_POSITIONS) {
    own.begin = int(p.part_first + gl_WorkGroupID.z * SPAN);
    own.place = uint(own.begin) / SPAN - uint(read_row(first_token(), rows, false).first) / SPAN;
    own.seen = own.begin <= row.last && own.begin + int(SPAN) > row.first && row.first <= row.last;
  }
  return own;
}

// Where positions are split: counts the workgroup, and tells whether all others of its row and heads were counted before it.
// Then their sums are seen here.
bool is_last(Row row) {
  memoryBarrierBuffer();
  barrier();
  if (OWN == 0u) {
    memoryBarrierBuffer();
    const uint counter = gl_WorkGroupID.y * p.kv_heads * group_workgroups() + gl_WorkGroupID.x;
    last_here = atomicAdd(counters[counter], 1u) + 1u == max(span_count(row), 1u);
    if (last_here) counters[counter] = 0u;
  }
  barrier();
  memoryBarrierBuffer();
  return last_here;
}

// Adds up the sums of the row's spans. Loads of several are under way before the first is used.
void add_spans(Row row) {
  const uint count = span_count(row);
  for (uint first = 0; first < count; first += SPANS_AHEAD) {
    float maxima[QUERIES][SPANS_AHEAD], totals[QUERIES][SPANS_AHEAD], sums_of_span[QUERIES][SPANS_AHEAD][OWN_DIMS];
    [[unroll]] for (uint m = 0; m < QUERIES; ++m) {
      [[unroll]] for (uint i = 0; i < SPANS_AHEAD; ++i) {
        const uint at = span_place(gl_WorkGroupID.y, query_head(m), min(first + i, count - 1u));
        maxima[m][i] = spans[at + HEAD_DIM];
        totals[m][i] = spans[at + HEAD_DIM + 1u];
        [[unroll]] for (uint j = 0; j < OWN_DIMS; ++j) sums_of_span[m][i][j] = spans[at + min(OWN + j * BLOCK, HEAD_DIM - 1u)];
      }
    }
    [[unroll]] for (uint i = 0; i < SPANS_AHEAD; ++i) {
      if (first + i >= count) break;
      [[unroll]] for (uint m = 0; m < QUERIES; ++m) add_span(m, maxima[m][i], totals[m][i], sums_of_span[m][i]);
    }
  }
}

void store_result(uint m, uint rows) {
  if (!is_stored(m, rows)) return;
  const uint token = first_token() + m / HEADS;
  const float share = all_total[m] > 0.0 ? 1.0 / all_total[m] : 0.0;
  if (KEEP == 1u && OWN == 0u) {
    const uint kept = token * p.sums_stride + query_head(m) * 2u;
    sums[kept] = all_maximum[m];
    sums[kept + 1u] = all_total[m];
  }
  const uint at = token * p.result_stride;
  [[unroll]] for (uint j = 0; j < OWN_DIMS; ++j) {
    if (OWN + j * BLOCK < HEAD_DIM) result[at + query_head(m) * HEAD_DIM + OWN + j * BLOCK] = all_sum[m][j] * share;
  }
  if (query_head(m) == p.heads - 1u) {
    for (uint column = columns() + OWN; column < (columns() + 31u) / 32u * 32u; column += BLOCK) result[at + column] = 0.0;
  }
}

#ifdef ROTARY
// Whether the workgroup stores its head's key and value: where positions are split, the one in whose span they are, and for a
// row that sees nothing the first.
bool stores(Row row, OwnSpan own) {
  if (SPLIT == 0u) return true;
  return own.seen ? row.position - own.begin < int(SPAN) : own.place == 0u && row.first > row.last;
}

void rotate_row(Row row, OwnSpan own) {
  [[unroll]] for (uint m = 0; m < HEADS; ++m) {
    for (uint d = HEAD_QUADS * 4u + OWN; d < DIM_PADDED; d += BLOCK) query[m * DIM_PADDED + d] = 0.0;
  }
  rotate_and_store(first_token(), stores(row, own) ? LOCAL_HEADS : HEADS);
  memoryBarrierBuffer();
  barrier();
}
#endif

void main() {
  const uint rows = step_block[0][ROWS_TOKENS];
  if (first_token() >= rows) return;

  Row row[TOKENS];
  [[unroll]] for (uint t = 0; t < TOKENS; ++t) row[t] = read_row(first_token() + t, rows);
  const OwnSpan own = own_span(row[0], rows);
  // The first workgroup of a row that sees nothing stores zeros.
  const bool takes_part = SPLIT == 0u || own.seen || SPLIT == ATTENTION_SPLIT_LAST && gl_WorkGroupID.z == 0u;
#ifdef ROTARY
  if (own.seen || stores(row[0], own)) rotate_row(row[0], own);
  if (!takes_part) return;
#else
  if (!takes_part) return;
  load_queries(rows);
#endif

  // Of the current span.
  float maximum[QUERIES];
  float total[QUERIES];   // of this invocation's positions
  float sum[QUERIES][VALUE_CHUNK];
  [[unroll]] for (uint m = 0; m < QUERIES; ++m) {
    start_sums(m, rows);
    maximum[m] = NO_SCORE;
    total[m] = 0.0;
    [[unroll]] for (uint i = 0; i < VALUE_CHUNK; ++i) sum[m][i] = 0.0;
  }

  // The rows mostly have one source. Where they have several, each source is a pass of its own.
  for (uint lead = 0; lead < TOKENS; ++lead) {
    SourceRange range = source_range(row, lead);
    if (SPLIT > 0u) {
      range.first = max(range.first, own.begin);
      range.last = min(range.last, own.begin + int(SPAN) - 1);
    }
    const uint base = source_base(range.source);
    const uint end = (uint(range.last + 1) + BLOCK - 1u) / BLOCK;

    [[dont_unroll]] for (uint block = uint(range.first) / BLOCK; block < end; ++block) {
      barrier(); // the previous block's weights have been read, and the queries are loaded
      const uint position = block * BLOCK + OWN;
      float score[QUERIES];
      [[unroll]] for (uint m = 0; m < QUERIES; ++m) score[m] = 0.0;
      // Whole subgroups have nothing to load where a single row sees few positions.
      bool wanted = true;
      if (TOKENS == 1)
        wanted = int(position) >= range.first && int(position) <= range.last && is_chosen(row[0], int(position));
      uint own_base = base;
      if (wanted || PAGED) own_base = position_base(base, range.source, position);
      if (PAGED && OWN % PAGE == 0u) page_bases[OWN / PAGE] = own_base;
      if (wanted) score_position(own_base, position, score);
      [[unroll]] for (uint m = 0; m < QUERIES; ++m) {
        const Row own = row[m / HEADS];
        score[m] = sees(own, range, int(position)) ? final_score(score[m], m, own, int(position)) : NO_SCORE;
        weight[m * BLOCK + OWN] = score[m];
      }
      float largest[QUERIES];
      block_maximum(largest);
      [[unroll]] for (uint m = 0; m < QUERIES; ++m) {
        const float new_maximum = max(maximum[m], largest[m]);
        const float rescale_factor = correction(maximum[m], new_maximum);
        maximum[m] = new_maximum;
        const float w = sees(row[m / HEADS], range, int(position)) ? exp2(score[m] - new_maximum) : 0.0;
        weight[m * BLOCK + OWN] = w;
        total[m] = fma(total[m], rescale_factor, w);
        [[unroll]] for (uint i = 0; i < VALUE_CHUNK; ++i) sum[m][i] *= rescale_factor;
      }
      barrier();
      add_values(base, range, block, sum);

      if (block + 1u != end && (block + 1u) % (SPAN / BLOCK) != 0u) continue;
      float span_total[QUERIES];
      gather_totals(total, span_total);
      [[unroll]] for (uint m = 0; m < QUERIES; ++m) {
        float span_sum[OWN_DIMS];
        gather(sum[m], span_sum);
        if (SPLIT > 0u) {
          store_span(m, rows, own.place, maximum[m], span_total[m], span_sum);
        } else {
          add_span(m, maximum[m], span_total[m], span_sum);
        }
        maximum[m] = NO_SCORE;
        total[m] = 0.0;
        [[unroll]] for (uint i = 0; i < VALUE_CHUNK; ++i) sum[m][i] = 0.0;
      }
    }
  }
  if (SPLIT == ATTENTION_SPLIT_APART) return;
  if (SPLIT == ATTENTION_SPLIT_LAST) {
    if (!is_last(row[0])) return;
    add_spans(row[0]);
  }
  [[unroll]] for (uint m = 0; m < QUERIES; ++m) {
    if (CARRY_LEAVES) {
      store_span(m, rows, 0u, all_maximum[m], all_total[m], all_sum[m]);
    } else {
      store_result(m, rows);
    }
  }
}
