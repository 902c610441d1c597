#version 460
// Attention for CPU drivers: a workgroup is one 8-lane vector. Positions come in tiles of eight, counted from the
// sequence's start. Lanes are the tile's positions while scores are computed, dimensions while values are summed up, and
// everything stays in registers. A row's arithmetic does not depend on which rows share its workgroup.
// variant: f32 CACHE_TYPE=0
// variant: f16 CACHE_TYPE=1
#extension GL_GOOGLE_include_directive : require
#include "common/types.glsl"
#include "common/lane8.glsl"
#include "attention/attention.params.h"

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint HEAD_DIM = 64;
layout(constant_id = 2) const uint HEADS = 1;
layout(constant_id = 3) const uint TOKENS = 1;
layout(constant_id = 4) const uint UNROLL = 0;
layout(push_constant) uniform Push { AttentionParams p; };
READ_BUFFER(uvec4, step_block, ATTENTION_STEP);
READ_BUFFER(float, q, ATTENTION_Q);
READ_BUFFER(uvec4, keys, ATTENTION_KEYS);
READ_BUFFER(uvec4, values, ATTENTION_VALUES);
WRITE_BUFFER(float, result, ATTENTION_RESULT);

#include "attention/attention_rows.glsl"

// A lane's dimensions: of every eighth chunk of 16 bytes, all. Chunks past the last repeat it and are not stored.
const uint OWN_CHUNKS = (CHUNKS + 7) / 8;
const uint OWN = OWN_CHUNKS * PER_CHUNK;

uint own_dimension(uint i) { return (i / PER_CHUNK * 8u + LANE) * PER_CHUNK + i % PER_CHUNK; }

float element(uvec4 quad, uint i) {
#if CACHE_TYPE == 0
  return uintBitsToFloat(quad[i]);
#else
  return unpackHalf2x16(quad[i / 2u])[i % 2u];
#endif
}

float query[QUERIES][DIM_PADDED / 8]; // dimension 8 i + lane
// Two sums to a dot product: one long chain of additions would wait for itself.
vec2 dot_product[QUERIES];
float weight[QUERIES]; // of the lane's position; negative where the row does not see it
float sum[QUERIES][OWN];

// Adds a chunk of the tile's keys to the dot products.
void add_keys(uint at, uint chunk) {
  const uvec4 quad = keys[at + chunk * 8u + LANE];
  [[unroll]] for (uint i = 0; i < PER_CHUNK; ++i) {
    const float key = element(quad, i);
    const uint lane = PER_CHUNK == 8 ? i : chunk % 2u * 4u + i;
    [[unroll]] for (uint m = 0; m < QUERIES; ++m) {
      dot_product[m][i % 2] = fma(key, subgroupBroadcast(query[m][chunk * PER_CHUNK / 8u], lane), dot_product[m][i % 2]);
    }
  }
}

// Adds the values at position t of the tile, by weight, to the sums.
void add_values(uint at, uint t) {
  float w[QUERIES];
  [[unroll]] for (uint m = 0; m < QUERIES; ++m) w[m] = subgroupBroadcast(weight[m], t);
  [[unroll]] for (uint c = 0; c < OWN_CHUNKS; ++c) {
    const uvec4 quad = values[at + t * CHUNKS + min(c * 8u + LANE, CHUNKS - 1u)];
    [[unroll]] for (uint i = 0; i < PER_CHUNK; ++i) {
      const float value = element(quad, i);
      const uint own = c * PER_CHUNK + i;
      // An unseen value may be anything, a NaN too, which a weight of zero would not remove.
      [[unroll]] for (uint m = 0; m < QUERIES; ++m) sum[m][own] = w[m] >= 0.0 ? fma(w[m], value, sum[m][own]) : sum[m][own];
    }
  }
}

void main() {
  const uint rows = step_block[0][ROWS_TOKENS];
  if (first_token() >= rows) return;

  Row row[TOKENS];
  [[unroll]] for (uint t = 0; t < TOKENS; ++t) row[t] = read_row(first_token() + t, rows);

  float maximum[QUERIES];
  float total[QUERIES]; // of the lane's positions
  [[unroll]] for (uint m = 0; m < QUERIES; ++m) {
    const uint at = p.q_first + min(first_token() + m / HEADS, rows - 1u) * p.q_stride + query_head(m) * HEAD_DIM;
    [[unroll]] for (uint i = 0; i < DIM_PADDED / 8; ++i) {
      const uint d = i * 8u + LANE;
      query[m][i] = d < HEAD_DIM ? q[at + d] * score_scale() : 0.0;
    }
    maximum[m] = NO_SCORE;
    total[m] = 0.0;
    [[unroll]] for (uint i = 0; i < OWN; ++i) sum[m][i] = 0.0;
  }

  // Rows of several sequences, which are rare here, take turns.
  for (uint turn = 0; turn < TOKENS; ++turn) {
    const Turn now = take_turn(row, turn);
    const uint base = head_base(now.sequence);

    [[dont_unroll]] for (int tile = now.first >> 3; tile <= now.last >> 3; ++tile) {
      const uint at = base + uint(tile) * 8u * CHUNKS;
      [[unroll]] for (uint m = 0; m < QUERIES; ++m) dot_product[m] = vec2(0.0);
      if (UNROLL == 1u) {
        [[unroll]] for (uint c = 0; c < CHUNKS; ++c) add_keys(at, c);
      } else {
        [[dont_unroll]] for (uint c = 0; c < CHUNKS; ++c) add_keys(at, c);
      }

      const int position = tile * 8 + int(LANE);
      [[unroll]] for (uint m = 0; m < QUERIES; ++m) {
        const bool seen = sees(row[m / HEADS], now, position);
        const float score = seen ? finite_score(dot_product[m].x + dot_product[m].y) : NO_SCORE;
        const float new_maximum = max(maximum[m], lane_max(score));
        const float old_worth = correction(maximum[m], new_maximum);
        maximum[m] = new_maximum;
        weight[m] = seen ? exp2(score - new_maximum) : -1.0;
        total[m] = fma(total[m], old_worth, max(weight[m], 0.0));
        [[unroll]] for (uint i = 0; i < OWN; ++i) sum[m][i] *= old_worth;
      }

      if (UNROLL == 1u) {
        [[unroll]] for (uint t = 0; t < 8; ++t) add_values(at, t);
      } else {
        [[dont_unroll]] for (uint t = 0; t < 8; ++t) add_values(at, t);
      }
    }
  }

  [[unroll]] for (uint m = 0; m < QUERIES; ++m) {
    const float all = lane_sum(total[m]);
    const float share = all > 0.0 ? 1.0 / all : 0.0;
    if (is_stored(m, rows)) {
      const uint at = (first_token() + m / HEADS) * p.result_stride;
      [[unroll]] for (uint i = 0; i < OWN; ++i) {
        const uint d = own_dimension(i);
        if (d < HEAD_DIM) result[at + query_head(m) * HEAD_DIM + d] = sum[m][i] * share;
      }
      if (query_head(m) == p.heads - 1u) {
        for (uint column = columns() + LANE; column < (columns() + 31u) / 32u * 32u; column += 8u) {
          result[at + column] = 0.0;
        }
      }
    }
  }
}
