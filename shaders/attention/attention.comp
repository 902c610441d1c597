#version 460
// Attention for any device. Positions come in blocks of as many as the workgroup has invocations, counted from the
// sequence's start. An invocation is a position of the block while scores are computed; for the values it is a chunk of
// dimensions and every SLICES-th position of the block. A row's arithmetic does not depend on which rows share its workgroup.
// variant: f32 CACHE_TYPE=0
// variant: f16 CACHE_TYPE=1
// variant: q8_0 CACHE_TYPE=2
#extension GL_GOOGLE_include_directive : require
#include "common/types.glsl"
#include "attention/attention.params.h"

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint HEAD_DIM = 64;
layout(constant_id = 2) const uint CAPPED = 0;
layout(constant_id = 3) const uint SIGHT = ATTENTION_SIGHT_PAST;
layout(constant_id = 4) const uint BIASED = 0;
layout(constant_id = 5) const uint SHARED = 0;
layout(constant_id = 6) const uint HEADS = 1;
layout(constant_id = 7) const uint TOKENS = 1;
layout(constant_id = 8) const uint KEEP = 0;
layout(push_constant) uniform Push { AttentionParams p; };
READ_BUFFER(uvec4, step_block, ATTENTION_STEP);
READ_BUFFER(float, q, ATTENTION_Q);
READ_BUFFER(uvec4, keys, ATTENTION_KEYS);
READ_BUFFER(uvec4, values, ATTENTION_VALUES);
WRITE_BUFFER(float, result, ATTENTION_RESULT);
WRITE_BUFFER(float, sums, ATTENTION_SUMS);

#include "attention/attention_rows.glsl"
#include "attention/attention_scores.glsl"

#if CACHE_TYPE == CACHE_F32
const uint VALUE_CHUNK = 4; // dimensions that an invocation sums up
#else
const uint VALUE_CHUNK = 8;
#endif
const uint CHUNKS = DIM_PADDED / VALUE_CHUNK; // no more than a workgroup has invocations
const uint SLICES = BLOCK / CHUNKS;
const uint PARTS = 8; // of a block, for its maximum

shared float weight[QUERIES * BLOCK]; // scores, then their exponentials
shared float part_maximum[QUERIES * PARTS];
shared float gathered[BLOCK * VALUE_CHUNK]; // for the sums over slices, one query at a time

// A chunk of the value at a position.
void load_value(uint base, uint position, uint chunk, out float value[VALUE_CHUNK]) {
  const uint tile = base + position % p.capacity / 8u * TILE_QUADS;
#if CACHE_TYPE == CACHE_Q8_0
  const float scale = unpackHalf2x16(values[tile + chunk / 4u][position % 8u / 2u])[position % 2u];
  const uint at = position % 8u * CHUNKS + chunk; // in 8 bytes
  const uvec4 quad = values[tile + KEY_STEPS + at / 2u];
  const uvec2 words = at % 2u == 0u ? quad.xy : quad.zw;
  [[unroll]] for (uint i = 0; i < 8; ++i) value[i] = scale * bytes_of(words[i / 4])[i % 4];
#else
  decode(values[tile + position % 8u * CHUNKS + chunk], value);
#endif
}

// The largest of the block's scores of each query.
void block_maximum(out float largest[QUERIES]) {
  barrier();
  for (uint i = OWN; i < QUERIES * PARTS; i += BLOCK) {
    float best = NO_SCORE;
    for (uint j = i % PARTS; j < BLOCK; j += PARTS) best = max(best, weight[i / PARTS * BLOCK + j]);
    part_maximum[i] = best;
  }
  barrier();
  [[unroll]] for (uint m = 0; m < QUERIES; ++m) {
    largest[m] = NO_SCORE;
    [[unroll]] for (uint i = 0; i < PARTS; ++i) largest[m] = max(largest[m], part_maximum[m * PARTS + i]);
  }
}

// Adds the block's values, by weight, to this invocation's sums.
void add_values(uint base, Turn now, uint block, inout float sum[QUERIES][VALUE_CHUNK]) {
  const uint slice = OWN / CHUNKS;
  if (slice >= SLICES) return;
  const int begin = int(block * BLOCK);
  const uint end = uint(min(now.last - begin, int(BLOCK) - 1)) + 1u;
  for (uint t = slice; t < end; t += SLICES) {
    const uint position = uint(begin) + t;
    if (int(position) < now.first) continue;
    float value[VALUE_CHUNK];
    load_value(position_base(base, now.text, position), position, OWN % CHUNKS, value);
    [[unroll]] for (uint m = 0; m < QUERIES; ++m) {
      // A value without weight may be one that the row must not see: it may be anything, a NaN too.
      const float w = weight[m * BLOCK + t];
      [[unroll]] for (uint i = 0; i < VALUE_CHUNK; ++i) sum[m][i] = w > 0.0 ? fma(w, value[i], sum[m][i]) : sum[m][i];
    }
  }
}

void store_result(uint m, uint rows, float maximum, float own_total, float own_sum[VALUE_CHUNK]) {
  barrier();
  weight[OWN] = own_total;
  [[unroll]] for (uint i = 0; i < VALUE_CHUNK; ++i) gathered[OWN * VALUE_CHUNK + i] = own_sum[i];
  barrier();
  if (!is_stored(m, rows)) return;
  float total = 0.0;
  for (uint i = 0; i < BLOCK; ++i) total += weight[i];
  const float share = total > 0.0 ? 1.0 / total : 0.0;
  if (KEEP == 1u && OWN == 0u) {
    const uint kept = (first_token() + m / HEADS) * p.sums_stride + query_head(m) * 2u;
    sums[kept] = maximum;
    sums[kept + 1u] = total;
  }
  const uint at = (first_token() + m / HEADS) * p.result_stride;
  for (uint d = OWN; d < HEAD_DIM; d += BLOCK) {
    float sum = 0.0;
    for (uint slice = 0; slice < SLICES; ++slice) sum += gathered[slice * DIM_PADDED + d];
    result[at + query_head(m) * HEAD_DIM + d] = sum * share;
  }
  if (query_head(m) == p.heads - 1u) {
    for (uint column = columns() + OWN; column < (columns() + 31u) / 32u * 32u; column += BLOCK) result[at + column] = 0.0;
  }
}

void main() {
  const uint rows = step_block[0][ROWS_TOKENS];
  if (first_token() >= rows) return;

  Row row[TOKENS];
  [[unroll]] for (uint t = 0; t < TOKENS; ++t) row[t] = read_row(first_token() + t, rows);
  load_queries(rows);

  float maximum[QUERIES];
  float total[QUERIES]; // of this invocation's positions
  float sum[QUERIES][VALUE_CHUNK];
  [[unroll]] for (uint m = 0; m < QUERIES; ++m) {
    maximum[m] = NO_SCORE;
    total[m] = 0.0;
    [[unroll]] for (uint i = 0; i < VALUE_CHUNK; ++i) sum[m][i] = 0.0;
  }

  // Rows that see several texts, which are rare here, take turns.
  for (uint turn = 0; turn < TOKENS; ++turn) {
    const Turn now = take_turn(row, turn);
    const uint base = text_base(now.text);

    [[dont_unroll]] for (uint block = uint(now.first) / BLOCK; block < (uint(now.last + 1) + BLOCK - 1u) / BLOCK; ++block) {
      barrier(); // the last block's weights are read, the queries are there
      const uint position = block * BLOCK + OWN;
      float score[QUERIES];
      score_position(position_base(base, now.text, position), position, score);
      [[unroll]] for (uint m = 0; m < QUERIES; ++m) {
        const Row own = row[m / HEADS];
        score[m] = sees(own, now, int(position)) ? final_score(score[m], m, own, int(position)) : NO_SCORE;
        weight[m * BLOCK + OWN] = score[m];
      }
      float largest[QUERIES];
      block_maximum(largest);
      [[unroll]] for (uint m = 0; m < QUERIES; ++m) {
        const float new_maximum = max(maximum[m], largest[m]);
        const float old_worth = correction(maximum[m], new_maximum);
        maximum[m] = new_maximum;
        const float w = sees(row[m / HEADS], now, int(position)) ? exp2(score[m] - new_maximum) : 0.0;
        weight[m * BLOCK + OWN] = w;
        total[m] = fma(total[m], old_worth, w);
        [[unroll]] for (uint i = 0; i < VALUE_CHUNK; ++i) sum[m][i] *= old_worth;
      }
      barrier();
      add_values(base, now, block, sum);
    }
  }
  [[unroll]] for (uint m = 0; m < QUERIES; ++m) store_result(m, rows, maximum[m], total[m], sum[m]);
}
