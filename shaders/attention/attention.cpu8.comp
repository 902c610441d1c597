#version 460
// Attention for CPU drivers: a workgroup is one 8-lane vector. A tile has eight positions; tiles are counted from the
// sequence's start. While scores are computed, each lane takes one position of the tile. While values are added up, each
// lane takes some dimensions. Everything stays in registers. A row's arithmetic does not depend on the rows that share its
// workgroup. The rotary kernels are for steps of one row. They also rotate the queries and the key, and store the key and
// the value in the cache. The projected kernels also compute the query, key and value; their names end in the weights' type.
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
// variant: qkv.{weight_type} CACHE_TYPE=1 ROTARY
// variant: qkv.f16_halves needs=half8 CACHE_TYPE=1 ROTARY WEIGHT_TYPE WEIGHT_TYPE_F16 HALVES
#extension GL_GOOGLE_include_directive : require
#include "common/types.glsl"
#include "common/cpu8.glsl"
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
layout(constant_id = ATTENTION_UNROLL_ID) const uint UNROLL = 0;
layout(constant_id = ATTENTION_LOAD_ID) const uint LOAD = LOAD_LANE;
layout(constant_id = ATTENTION_CACHE_LOAD_ID) const uint CACHE_LOAD = LOAD_LANE;
layout(constant_id = ATTENTION_DOT_SUMS_ID) const uint DOT_SUMS = 2;
#ifdef WEIGHT_TYPE
layout(push_constant) uniform Push { AttentionParams p; ProjectionParams projection; };
#elif defined(ROTARY)
layout(push_constant) uniform Push { AttentionParams p; };
#else
layout(push_constant) uniform Push { AttentionParams p; QueryParams by_address; };
layout(buffer_reference, std430, buffer_reference_align = 4) readonly restrict buffer QueryRow { float d[]; };
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
#ifndef ROTARY
WRITE_BUFFER(float, carried, ATTENTION_CARRIED);
#endif

#include "attention/cpu8_cache.glsl"

// The queries. With LOAD_UNIFORM each multiplication reads its number from memory, at query_at. Otherwise each lane holds
// dimensions 8 i + lane in `query`.
uvec2 query_at[QUERIES];
float query[QUERIES][DIM_PADDED / 8];

float query_number(uint m, uint d) {
  if (LOAD != LOAD_UNIFORM) return FROM_LANE(query[m][d / 8u], d % 8u);
#ifdef ROTARY
  const float number = rotated[m * DIM_PADDED + d];
#else
  const float number = QueryRow(query_at[m]).d[d];
#endif
  return HEAD_DIM == DIM_PADDED || d < HEAD_DIM ? number : 0.0;
}

// Each dot product has two sums, because every addition in one long chain waits for the one before; or eight, as in
// attention.half8.comp.
float dot_product[QUERIES][DOT_SUMS];
float weight[QUERIES]; // of the lane's position
float sum[QUERIES][OWN];
// The sums with the current tile added. They are variables of their own because CPU drivers mask each assignment to a
// variable that lives longer than one round of a loop, which is slow.
float new_sum[QUERIES][OWN];

// The weight of a position that a row does not see. Another row may see it and need its value. The negative weight then
// tells this row not to add the value.
const float UNSEEN = TOKENS == 1 ? 0.0 : -1.0;

// Adds a step of the tile's keys to the dot products.
#if KEY_TYPE >= CACHE_Q8_0
void add_keys(uint tile, uint step) {
  const uint at = tile + step * KEY_STEP_QUADS;
  const float scale = unpackHalf2x16(key_word(at * 4u + LANE / 2u))[LANE % 2u];
  vec2 product[QUERIES];
  [[unroll]] for (uint m = 0; m < QUERIES; ++m) product[m] = vec2(0.0);
  [[unroll]] for (uint half_step = 0; half_step < 2; ++half_step) {
#if KEY_TYPE == CACHE_Q8_0
    const uvec4 quad = key_quad(at + 1u + half_step * 8u + LANE);
#else
    const uvec4 quad = bytes_of_nibbles(key_quad(at + 1u + LANE), half_step);
#endif
    [[unroll]] for (uint i = 0; i < 16; ++i) {
      const float key = float(bitfieldExtract(int(quad[i / 4]), int(i % 4 * 8), 8));
      [[unroll]] for (uint m = 0; m < QUERIES; ++m) {
        product[m][i % 2] = fma(key, query_number(m, step * 32u + half_step * 16u + i), product[m][i % 2]);
      }
    }
  }
  [[unroll]] for (uint m = 0; m < QUERIES; ++m) {
    [[unroll]] for (uint i = 0; i < 2; ++i) dot_product[m][i] = fma(scale, product[m][i], dot_product[m][i]);
  }
}
#else
void add_keys(uint tile, uint step) {
  const uvec4 quad = load_key(tile, step);
  [[unroll]] for (uint i = 0; i < KEY_STEP; ++i) {
    const float key = KEY_ELEMENT(quad, i);
    [[unroll]] for (uint m = 0; m < QUERIES; ++m) {
      const uint n = i % DOT_SUMS;
      dot_product[m][n] = fma(key, query_number(m, step * KEY_STEP + i), dot_product[m][n]);
    }
  }
}
#endif

// The sum of a dot product's sums, neighbours first. It is precise because the driver would take a scale out of both in some
// kernels and not in others.
float whole_dot_product(uint m) {
  [[unroll]] for (uint step = 1; step < DOT_SUMS; step *= 2) {
    [[unroll]] for (uint i = 0; i < DOT_SUMS; i += 2 * step) {
      precise const float both = dot_product[m][i] + dot_product[m][i + step];
      dot_product[m][i] = both;
    }
  }
  return dot_product[m][0];
}

// Adds the values at position t, by weight, to the sums. `own_tile`: of the lane's position.
void add_values(uint own_tile, uint own_seen, uint t) {
  float w[QUERIES], value[OWN];
  [[unroll]] for (uint m = 0; m < QUERIES; ++m) w[m] = FROM_LANE(weight[m], t);
  load_own_values(own_tile, own_seen, t, value);
  [[unroll]] for (uint i = 0; i < OWN; ++i) {
    [[unroll]] for (uint m = 0; m < QUERIES; ++m) {
      const float more = fma(w[m], value[i], new_sum[m][i]);
      new_sum[m][i] = TOKENS == 1 || w[m] >= 0.0 ? more : new_sum[m][i];
    }
  }
}

void load_query(uint m, uint rows) {
#ifndef ROTARY
  const uint from = min(first_token() + m / HEADS, rows - 1u) * p.q_stride + query_head(m) * HEAD_DIM;
  if (LOAD == LOAD_UNIFORM) {
    query_at[m] = offset_address(by_address.q, from * 4u);
    return;
  }
#endif
  if (LOAD == LOAD_UNIFORM) return;
  [[unroll]] for (uint i = 0; i < DIM_PADDED / 8; ++i) {
    const uint d = i * 8u + LANE;
#ifdef ROTARY
    const float number = rotated[m * DIM_PADDED + d];
#else
    const float number = q[p.q_first + from + min(d, HEAD_DIM - 1u)];
#endif
    query[m][i] = d < HEAD_DIM ? number : 0.0;
  }
}

// Where the sums of a query and of the rest that goes with them are carried from one part of the cache to the next.
uint carried_place(uint m, uint rows) {
  return (min(first_token() + m / HEADS, rows - 1u) * p.heads + query_head(m)) * (HEAD_DIM + 9u);
}

void take_sums(uint m, uint rows, inout float maximum, inout float total) {
#ifndef ROTARY
  if (!CARRY_TAKES) return;
  const uint at = carried_place(m, rows);
  [[unroll]] for (uint i = 0; i < OWN; ++i) sum[m][i] = carried[at + min(own_dimension(i), HEAD_DIM - 1u)];
  maximum = carried[at + HEAD_DIM];
  total = carried[at + HEAD_DIM + 1u + LANE];
#endif
}

void leave_sums(uint m, uint rows, float maximum, float total) {
#ifndef ROTARY
  if (!is_stored(m, rows)) return;
  const uint at = carried_place(m, rows);
  [[unroll]] for (uint i = 0; i < OWN; ++i) {
    if (own_dimension(i) < HEAD_DIM) carried[at + own_dimension(i)] = sum[m][i];
  }
  if (LANE == 0u) carried[at + HEAD_DIM] = maximum;
  carried[at + HEAD_DIM + 1u + LANE] = total;
#endif
}

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
    load_query(m, rows);
    maximum[m] = first_maximum(m);
    total[m] = LANE == 0u ? FIRST_TOTAL : 0.0;
    [[unroll]] for (uint i = 0; i < OWN; ++i) sum[m][i] = 0.0;
    take_sums(m, rows, maximum[m], total[m]);
  }

  // The rows mostly have one source. Where they have several, each source is a pass of its own.
  for (uint lead = 0; lead < TOKENS; ++lead) {
    const SourceRange range = source_range(row, lead);
    const uint base = source_base(range.source);
    const uint tiles = p.capacity / 8u;
    uint slot = uint(range.first >> 3) % tiles; // the tile's place in the ring

    [[dont_unroll]] for (int tile = range.first >> 3; tile <= range.last >> 3; ++tile) {
      const int position = tile * 8 + int(LANE);
      const uint at = position_base(base, range.source, PAGED ? uint(tile) * 8u : uint(position)) + slot;
      slot = slot + 1u == tiles ? 0u : slot + 1u;
      [[unroll]] for (uint m = 0; m < QUERIES; ++m) {
        [[unroll]] for (uint i = 0; i < DOT_SUMS; ++i) dot_product[m][i] = 0.0;
      }
      if (UNROLL == 1u) {
        [[unroll]] for (uint c = 0; c < KEY_STEPS; ++c) add_keys(at * KEY_TILE_QUADS, c);
      } else {
        [[dont_unroll]] for (uint c = 0; c < KEY_STEPS; ++c) add_keys(at * KEY_TILE_QUADS, c);
      }

      uint seen_by_any = 0u;
      [[unroll]] for (uint m = 0; m < QUERIES; ++m) {
        const Row own = row[m / HEADS];
        const bool seen = sees(own, range, position);
        seen_by_any = seen ? ~0u : seen_by_any;
        const float product = whole_dot_product(m) * score_scale();
        const float score = seen ? final_score(product, m, own, position) : NO_SCORE;
        const float new_maximum = max(maximum[m], lane_max(score));
        const float rescale_factor = correction(maximum[m], new_maximum);
        maximum[m] = new_maximum;
        weight[m] = seen ? exp2(score - new_maximum) : UNSEEN;
        total[m] = fma(total[m], rescale_factor, max(weight[m], 0.0));
        [[unroll]] for (uint i = 0; i < OWN; ++i) new_sum[m][i] = sum[m][i] * rescale_factor;
      }

      if (UNROLL == 1u) {
        [[unroll]] for (uint t = 0; t < 8; ++t) add_values(at, seen_by_any, t);
      } else {
        [[dont_unroll]] for (uint t = 0; t < 8; ++t) add_values(at, seen_by_any, t);
      }
      [[unroll]] for (uint m = 0; m < QUERIES; ++m) {
        [[unroll]] for (uint i = 0; i < OWN; ++i) sum[m][i] = new_sum[m][i];
      }
    }
  }

  if (CARRY_LEAVES) {
    [[unroll]] for (uint m = 0; m < QUERIES; ++m) leave_sums(m, rows, maximum[m], total[m]);
    return;
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
