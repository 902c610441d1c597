#version 460
// Attention for any device. Positions come in blocks of as many as the workgroup has invocations, counted from the
// sequence's start. An invocation is a position of the block while scores are computed; for the values it is a chunk of
// dimensions and every SLICES-th position of the block. A row's arithmetic does not depend on which rows share its workgroup.
// variant: f32 CACHE_TYPE=0
// variant: f16 CACHE_TYPE=1
#extension GL_GOOGLE_include_directive : require
#include "common/types.glsl"
#include "attention/attention.params.h"

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint HEAD_DIM = 64;
layout(constant_id = 2) const uint HEADS = 1;
layout(constant_id = 3) const uint TOKENS = 1;
layout(push_constant) uniform Push { AttentionParams p; };
READ_BUFFER(uvec4, step_block, ATTENTION_STEP);
READ_BUFFER(float, q, ATTENTION_Q);
READ_BUFFER(uvec4, keys, ATTENTION_KEYS);
READ_BUFFER(uvec4, values, ATTENTION_VALUES);
WRITE_BUFFER(float, result, ATTENTION_RESULT);

#include "attention/attention_rows.glsl"

const uint BLOCK = gl_WorkGroupSize.x;
const uint SLICES = BLOCK / CHUNKS;
const uint PARTS = 8; // of a block, for its maximum
#define OWN gl_LocalInvocationID.x

shared float query[QUERIES * DIM_PADDED];
shared float weight[QUERIES * BLOCK]; // scores, then their exponentials
shared float part_maximum[QUERIES * PARTS];
shared float gathered[BLOCK * PER_CHUNK]; // for the sums over slices, one query at a time

// The elements of 16 bytes.
void decode(uvec4 quad, out float e[PER_CHUNK]) {
#if CACHE_TYPE == 0
  [[unroll]] for (uint i = 0; i < 4; ++i) e[i] = uintBitsToFloat(quad[i]);
#else
  [[unroll]] for (uint i = 0; i < 4; ++i) {
    const vec2 pair = unpackHalf2x16(quad[i]);
    e[2 * i] = pair.x;
    e[2 * i + 1] = pair.y;
  }
#endif
}

void load_queries(uint rows) {
  for (uint i = OWN; i < QUERIES * DIM_PADDED; i += BLOCK) {
    const uint m = i / DIM_PADDED;
    const uint d = i % DIM_PADDED;
    const uint at = p.q_first + min(first_token() + m / HEADS, rows - 1u) * p.q_stride + query_head(m) * HEAD_DIM;
    query[i] = d < HEAD_DIM ? q[at + d] * score_scale() : 0.0;
  }
}

// The dot products of the queries with the key at one position.
void score_position(uint base, uint position, out float score[QUERIES]) {
  [[unroll]] for (uint m = 0; m < QUERIES; ++m) score[m] = 0.0;
  const uint at = base + position / 8u * (CHUNKS * 8u) + position % 8u;
  [[dont_unroll]] for (uint c = 0; c < CHUNKS; ++c) {
    float key[PER_CHUNK];
    decode(keys[at + c * 8u], key);
    [[unroll]] for (uint m = 0; m < QUERIES; ++m) {
      [[unroll]] for (uint i = 0; i < PER_CHUNK; ++i) {
        score[m] = fma(key[i], query[m * DIM_PADDED + c * PER_CHUNK + i], score[m]);
      }
    }
  }
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
void add_values(uint base, uint block, int first, int last, inout float sum[QUERIES][PER_CHUNK]) {
  const uint slice = OWN / CHUNKS;
  if (slice >= SLICES) return;
  const int begin = int(block * BLOCK);
  const uint end = uint(min(last - begin, int(BLOCK) - 1)) + 1u;
  for (uint t = slice; t < end; t += SLICES) {
    if (begin + int(t) < first) continue;
    float value[PER_CHUNK];
    decode(values[base + (uint(begin) + t) * CHUNKS + OWN % CHUNKS], value);
    [[unroll]] for (uint m = 0; m < QUERIES; ++m) {
      // A value without weight may be one that the row must not see: it may be anything, a NaN too.
      const float w = weight[m * BLOCK + t];
      [[unroll]] for (uint i = 0; i < PER_CHUNK; ++i) sum[m][i] = w > 0.0 ? fma(w, value[i], sum[m][i]) : sum[m][i];
    }
  }
}

void store_result(uint m, uint rows, float own_total, float own_sum[PER_CHUNK]) {
  barrier();
  weight[OWN] = own_total;
  [[unroll]] for (uint i = 0; i < PER_CHUNK; ++i) gathered[OWN * PER_CHUNK + i] = own_sum[i];
  barrier();
  if (!is_stored(m, rows)) return;
  float total = 0.0;
  for (uint i = 0; i < BLOCK; ++i) total += weight[i];
  const float share = total > 0.0 ? 1.0 / total : 0.0;
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
  float sum[QUERIES][PER_CHUNK];
  [[unroll]] for (uint m = 0; m < QUERIES; ++m) {
    maximum[m] = NO_SCORE;
    total[m] = 0.0;
    [[unroll]] for (uint i = 0; i < PER_CHUNK; ++i) sum[m][i] = 0.0;
  }

  // Rows of several sequences, which are rare here, take turns.
  for (uint turn = 0; turn < TOKENS; ++turn) {
    const Turn now = take_turn(row, turn);
    const uint base = head_base(now.sequence);

    [[dont_unroll]] for (uint block = uint(now.first) / BLOCK; block < (uint(now.last + 1) + BLOCK - 1u) / BLOCK; ++block) {
      barrier(); // the last block's weights are read, the queries are there
      const uint position = block * BLOCK + OWN;
      float score[QUERIES];
      score_position(base, min(position, p.capacity - 1u), score);
      [[unroll]] for (uint m = 0; m < QUERIES; ++m) {
        score[m] = sees(row[m / HEADS], now, int(position)) ? finite_score(score[m]) : NO_SCORE;
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
        [[unroll]] for (uint i = 0; i < PER_CHUNK; ++i) sum[m][i] *= old_worth;
      }
      barrier();
      add_values(base, block, now.first, now.last, sum);
    }
  }
  [[unroll]] for (uint m = 0; m < QUERIES; ++m) store_result(m, rows, total[m], sum[m]);
}
