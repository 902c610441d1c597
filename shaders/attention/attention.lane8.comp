#version 460
// Attention for CPU drivers: a workgroup is one 8-lane vector. Positions come in tiles of eight, counted from the
// sequence's start. Lanes are the tile's positions while scores are computed, dimensions while values are summed up, and
// everything stays in registers. A row's arithmetic does not depend on which rows share its workgroup.
// The rotary kernels are for steps of one row, and put its key and value into the cache themselves. The projected ones make
// it too; they are named after the weights' type.
// variant: f32 CACHE_TYPE=0
// variant: f16 CACHE_TYPE=1
// variant: q8_0 CACHE_TYPE=2
// variant: rotary.f32 CACHE_TYPE=0 ROTARY
// variant: rotary.f16 CACHE_TYPE=1 ROTARY
// variant: rotary.q8_0 CACHE_TYPE=2 ROTARY
// variant: projected.f32 CACHE_TYPE=1 ROTARY WEIGHT_TYPE=0
// variant: projected.f16 CACHE_TYPE=1 ROTARY WEIGHT_TYPE=1
// variant: projected.bf16 CACHE_TYPE=1 ROTARY WEIGHT_TYPE=2
// variant: projected.q8_0 CACHE_TYPE=1 ROTARY WEIGHT_TYPE=3
// variant: projected.q4_0 CACHE_TYPE=1 ROTARY WEIGHT_TYPE=4
// variant: projected.q4_1 CACHE_TYPE=1 ROTARY WEIGHT_TYPE=5
// variant: projected.q5_0 CACHE_TYPE=1 ROTARY WEIGHT_TYPE=6
// variant: projected.q5_1 CACHE_TYPE=1 ROTARY WEIGHT_TYPE=7
// variant: projected.q2_k CACHE_TYPE=1 ROTARY WEIGHT_TYPE=8
// variant: projected.q3_k CACHE_TYPE=1 ROTARY WEIGHT_TYPE=9
// variant: projected.q4_k CACHE_TYPE=1 ROTARY WEIGHT_TYPE=10
// variant: projected.q5_k CACHE_TYPE=1 ROTARY WEIGHT_TYPE=11
// variant: projected.q6_k CACHE_TYPE=1 ROTARY WEIGHT_TYPE=12
// variant: projected.iq4_nl CACHE_TYPE=1 ROTARY WEIGHT_TYPE=13
// variant: projected.iq4_xs CACHE_TYPE=1 ROTARY WEIGHT_TYPE=14
// variant: projected.mxfp4 CACHE_TYPE=1 ROTARY WEIGHT_TYPE=15
#extension GL_GOOGLE_include_directive : require
#include "common/types.glsl"
#include "common/lane8.glsl"
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
layout(constant_id = 9) const uint UNROLL = 0;
#ifdef WEIGHT_TYPE
layout(push_constant) uniform Push { AttentionParams p; ProjectionParams projection; };
#else
layout(push_constant) uniform Push { AttentionParams p; };
#endif
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

#include "attention/attention_rows.glsl"
#ifdef ROTARY
#include "attention/rotary_queries.glsl"
#endif
#ifdef WEIGHT_TYPE
#include "attention/projection.glsl"
#endif

#if CACHE_TYPE == CACHE_Q8_0
// The same memory in other units: a lane has half as many bytes of a value as of a key.
CACHE_BUFFER(uint, key_words, ATTENTION_KEYS);
CACHE_BUFFER(uint, value_words, ATTENTION_VALUES);
CACHE_BUFFER(uvec2, value_chunks, ATTENTION_VALUES);
#endif

// A lane's dimensions: of every eighth chunk, all. Chunks past the last repeat it and are not stored.
#if CACHE_TYPE == CACHE_F32
const uint VALUE_CHUNK = 4;
#else
const uint VALUE_CHUNK = 8;
#endif
const uint CHUNKS = DIM_PADDED / VALUE_CHUNK;
const uint OWN_CHUNKS = (CHUNKS + 7) / 8;
const uint OWN = OWN_CHUNKS * VALUE_CHUNK;

uint own_dimension(uint i) { return (i / VALUE_CHUNK * 8u + LANE) * VALUE_CHUNK + i % VALUE_CHUNK; }

#if CACHE_TYPE == CACHE_F32
float element(uvec4 quad, uint i) { return uintBitsToFloat(quad[i]); }
#elif CACHE_TYPE == CACHE_F16
float element(uvec4 quad, uint i) { return unpackHalf2x16(quad[i / 2u])[i % 2u]; }
#endif

float query[QUERIES][DIM_PADDED / 8]; // dimension 8 i + lane
// Two sums to a dot product: one long chain of additions would wait for itself.
vec2 dot_product[QUERIES];
float weight[QUERIES]; // of the lane's position; negative where the row does not see it
float sum[QUERIES][OWN];

// Adds a step of the tile's keys to the dot products.
#if CACHE_TYPE == CACHE_Q8_0
void add_keys(uint tile, uint step) {
  const uint at = tile + step * KEY_STEP_QUADS;
  const float scale = unpackHalf2x16(key_words[at * 4u + LANE / 2u])[LANE % 2u];
  vec2 product[QUERIES];
  [[unroll]] for (uint m = 0; m < QUERIES; ++m) product[m] = vec2(0.0);
  [[unroll]] for (uint half_step = 0; half_step < 2; ++half_step) {
    const uvec4 quad = keys[at + 1u + half_step * 8u + LANE];
    [[unroll]] for (uint i = 0; i < 16; ++i) {
      const float key = float(bitfieldExtract(int(quad[i / 4]), int(i % 4 * 8), 8));
      [[unroll]] for (uint m = 0; m < QUERIES; ++m) {
        const float one = subgroupBroadcast(query[m][step * 4u + half_step * 2u + i / 8u], i % 8);
        product[m][i % 2] = fma(key, one, product[m][i % 2]);
      }
    }
  }
  [[unroll]] for (uint m = 0; m < QUERIES; ++m) dot_product[m] = fma(vec2(scale), product[m], dot_product[m]);
}
#else
void add_keys(uint tile, uint step) {
  const uvec4 quad = keys[tile + step * 8u + LANE];
  [[unroll]] for (uint i = 0; i < KEY_STEP; ++i) {
    const float key = element(quad, i);
    const uint lane = KEY_STEP == 8 ? i : step % 2u * 4u + i;
    [[unroll]] for (uint m = 0; m < QUERIES; ++m) {
      dot_product[m][i % 2] = fma(key, subgroupBroadcast(query[m][step * KEY_STEP / 8u], lane), dot_product[m][i % 2]);
    }
  }
}
#endif

// A chunk of the value at position t of the tile.
void load_value(uint tile, uint t, uint chunk, out float value[VALUE_CHUNK]) {
#if CACHE_TYPE == CACHE_Q8_0
  const vec2 scales = unpackHalf2x16(value_words[(tile + chunk / 4u) * 4u + t / 2u]);
  const float scale = t % 2u == 0u ? scales.x : scales.y;
  const uvec2 words = value_chunks[(tile + KEY_STEPS) * 2u + t * CHUNKS + chunk];
  [[unroll]] for (uint i = 0; i < 8; ++i) value[i] = scale * float(bitfieldExtract(int(words[i / 4]), int(i % 4 * 8), 8));
#else
  const uvec4 quad = values[tile + t * CHUNKS + chunk];
  [[unroll]] for (uint i = 0; i < VALUE_CHUNK; ++i) value[i] = element(quad, i);
#endif
}

// Adds the values at position t of the tile, by weight, to the sums. `own_tile` is where that of the lane's position is.
void add_values(uint own_tile, uint t) {
  const uint tile = SHARED == 1u ? subgroupBroadcast(own_tile, t) : own_tile;
  float w[QUERIES];
  [[unroll]] for (uint m = 0; m < QUERIES; ++m) w[m] = subgroupBroadcast(weight[m], t);
  [[unroll]] for (uint c = 0; c < OWN_CHUNKS; ++c) {
    float value[VALUE_CHUNK];
    load_value(tile, t, min(c * 8u + LANE, CHUNKS - 1u), value);
    [[unroll]] for (uint i = 0; i < VALUE_CHUNK; ++i) {
      const uint own = c * VALUE_CHUNK + i;
      // An unseen value may be anything, a NaN too, which a weight of zero would not remove.
      [[unroll]] for (uint m = 0; m < QUERIES; ++m) {
        sum[m][own] = w[m] >= 0.0 ? fma(w[m], value[i], sum[m][own]) : sum[m][own];
      }
    }
  }
}

#ifndef ROTARY
float load_query(uint m, uint d, uint rows) {
  const uint at = p.q_first + min(first_token() + m / HEADS, rows - 1u) * p.q_stride + query_head(m) * HEAD_DIM;
  return d < HEAD_DIM ? q[at + d] : 0.0;
}
#endif

void main() {
  const uint rows = step_block[0][ROWS_TOKENS];
  if (first_token() >= rows) return;
#ifdef WEIGHT_TYPE
  project();
  memoryBarrierBuffer();
  barrier();
#endif
#ifdef ROTARY
  rotate_and_store(0u, LOCAL_HEADS);
  memoryBarrierBuffer();
  barrier();
#endif

  Row row[TOKENS];
  [[unroll]] for (uint t = 0; t < TOKENS; ++t) row[t] = read_row(first_token() + t, rows);

  float maximum[QUERIES];
  float total[QUERIES]; // of the lane's positions
  [[unroll]] for (uint m = 0; m < QUERIES; ++m) {
    [[unroll]] for (uint i = 0; i < DIM_PADDED / 8; ++i) query[m][i] = load_query(m, i * 8u + LANE, rows) * score_scale();
    maximum[m] = NO_SCORE;
    total[m] = 0.0;
    [[unroll]] for (uint i = 0; i < OWN; ++i) sum[m][i] = 0.0;
  }

  // Rows that see several texts, which are rare here, take turns.
  for (uint turn = 0; turn < TOKENS; ++turn) {
    const Turn now = take_turn(row, turn);
    const uint base = text_base(now.text);
    const uint tiles = p.capacity / 8u;
    uint slot = uint(now.first >> 3) % tiles; // the tile's place in the ring

    [[dont_unroll]] for (int tile = now.first >> 3; tile <= now.last >> 3; ++tile) {
      const int position = tile * 8 + int(LANE);
      const uint at = position_base(base, now.text, uint(position)) + slot * TILE_QUADS;
      slot = slot + 1u == tiles ? 0u : slot + 1u;
      [[unroll]] for (uint m = 0; m < QUERIES; ++m) dot_product[m] = vec2(0.0);
      if (UNROLL == 1u) {
        [[unroll]] for (uint c = 0; c < KEY_STEPS; ++c) add_keys(at, c);
      } else {
        [[dont_unroll]] for (uint c = 0; c < KEY_STEPS; ++c) add_keys(at, c);
      }

      [[unroll]] for (uint m = 0; m < QUERIES; ++m) {
        const Row own = row[m / HEADS];
        const bool seen = sees(own, now, position);
        const float product = dot_product[m].x + dot_product[m].y;
        const float score = seen ? final_score(product, m, own, position) : NO_SCORE;
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
      if (KEEP == 1u && LANE < 2u) {
        const uint kept = (first_token() + m / HEADS) * p.sums_stride + query_head(m) * 2u;
        sums[kept + LANE] = LANE == 0u ? maximum[m] : all;
      }
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
