#version 460
// Attention for CPU drivers that load 16-bit numbers as vectors: a workgroup is one 8-lane vector, and a load and conversion
// gives eight neighbouring dimensions of a key or value, one to a lane. Everything stays in registers and on the stack. A row's
// arithmetic does not depend on the rows that share its workgroup, and is that of attention.cpu8.comp with eight sums.
// The rotary kernel is for steps of one row: it also rotates the queries and the key, and stores the key and the value.
// variant: - HALVES CACHE_TYPE=1
// variant: rope HALVES CACHE_TYPE=1 ROTARY
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
layout(push_constant) uniform Push { AttentionParams p; QueryParams by_address; };
READ_BUFFER(uvec4, step_block, ATTENTION_STEP);
WRITE_BUFFER(float, result, ATTENTION_RESULT);
WRITE_BUFFER(float, sums, ATTENTION_SUMS);
#ifdef ROTARY
#define CACHE_BUFFER COHERENT_BUFFER
#define CACHE_ACCESS coherent
#else
#define CACHE_ACCESS readonly
#endif
#include "attention/attention_rows.glsl"
#ifdef ROTARY
#include "attention/rotary_queries.glsl"
#endif

// Such loads are made even where no lane is active: every address must be in the buffer.
LANE_SELECT(float, vec4)
layout(buffer_reference, std430, buffer_reference_align = 4) readonly buffer Floats { float d[8]; };
layout(buffer_reference, std430, buffer_reference_align = 16) CACHE_ACCESS buffer Halves { f16vec4 d[]; };
float eight_halves(Halves from, uint i) { return float(lane_select(from.d[2u * i], from.d[2u * i + 1u])); }

const uint OWN = HEAD_DIM / 8; // dimensions of a lane: every eighth
float query[QUERIES][OWN];
float sum[QUERIES][OWN];
float maximum[QUERIES];
float total[QUERIES]; // of the lane's positions

void begin(uint m, uint rows) {
  const uint from = min(first_token() + m / HEADS, rows - 1u) * p.q_stride + query_head(m) * HEAD_DIM;
  [[unroll]] for (uint i = 0; i < OWN; ++i) {
#ifdef ROTARY
    query[m][i] = rotated[m * DIM_PADDED + i * 8u + LANE];
#else
    Floats at = Floats(offset_address(by_address.q, (from + i * 8u) * 4u));
    query[m][i] = lane_select(vec4(at.d[0], at.d[1], at.d[2], at.d[3]), vec4(at.d[4], at.d[5], at.d[6], at.d[7]));
#endif
    sum[m][i] = 0.0;
  }
  maximum[m] = first_maximum(m);
  total[m] = LANE == 0u ? FIRST_TOTAL : 0.0;
}

// Every second group of `step` lanes takes b in place of a, and adds what is `step` lanes apart.
float add_apart(float a, float b, uint step) {
  const bool second = (LANE & step) != 0u;
  return (second ? b : a) + subgroupShuffleXor(second ? a : b, step);
}

// Lane t gets the dot product with the key at position t of the tile. `part` has one of them in all lanes.
float dot_products(float part[8]) {
  float pair[4];
  [[unroll]] for (uint i = 0; i < 4; ++i) pair[i] = add_apart(part[2 * i], part[2 * i + 1], 1u);
  return add_apart(add_apart(pair[0], pair[1], 2u), add_apart(pair[2], pair[3], 2u), 4u);
}

void multiply_keys(uint tile, out float product[QUERIES]) {
  Halves key_tile = Halves(offset_address(by_address.keys, tile * 16u));
  float part[QUERIES][8];
  [[unroll]] for (uint t = 0; t < 8; ++t) {
    [[unroll]] for (uint m = 0; m < QUERIES; ++m) part[m][t] = 0.0;
    [[unroll]] for (uint i = 0; i < OWN; ++i) {
      const float key = eight_halves(key_tile, i * 8u + t);
      [[unroll]] for (uint m = 0; m < QUERIES; ++m) part[m][t] = fma(key, query[m][i], part[m][t]);
    }
  }
  [[unroll]] for (uint m = 0; m < QUERIES; ++m) product[m] = dot_products(part[m]) * score_scale();
}

// The weight of a position that a row does not see. Another row may see it and need its value. The negative weight then
// tells this row not to add the value.
const float UNSEEN = TOKENS == 1 ? 0.0 : -1.0;

// Adds a tile to the sums. `seen`: whether the row of a query sees the lane's position. `whole`: all rows see all positions.
void add_tile(uint tile, Row row[TOKENS], int position, bool seen[TOKENS], bool whole) {
  float product[QUERIES], rescale_factor[QUERIES], weight[QUERIES][8];
  multiply_keys(tile, product);
  uint seen_by_any = 0u;
  [[unroll]] for (uint m = 0; m < QUERIES; ++m) {
    const bool sees_it = whole || seen[m / HEADS];
    seen_by_any = sees_it ? ~0u : seen_by_any;
    // Not a branch, which would mask what is in it.
    const float score = mix(NO_SCORE, final_score(product[m], m, row[m / HEADS], position), sees_it);
    const float new_maximum = max(maximum[m], lane_max(score));
    rescale_factor[m] = correction(maximum[m], new_maximum);
    maximum[m] = new_maximum;
    const float own_weight = mix(UNSEEN, exp2(score - new_maximum), sees_it);
    total[m] = fma(total[m], rescale_factor[m], max(own_weight, 0.0));
    [[unroll]] for (uint t = 0; t < 8; ++t) weight[m][t] = subgroupBroadcast(own_weight, t);
  }
  Halves value_tile = Halves(offset_address(by_address.values, tile * 16u));
  [[unroll]] for (uint i = 0; i < OWN; ++i) {
    float new_sum[QUERIES];
    [[unroll]] for (uint m = 0; m < QUERIES; ++m) new_sum[m] = sum[m][i] * rescale_factor[m];
    [[unroll]] for (uint t = 0; t < 8; ++t) {
      float value = eight_halves(value_tile, t * OWN + i);
      // An unseen value may be anything, a NaN too, which a weight of zero would not remove.
      if (!whole) value = uintBitsToFloat(floatBitsToUint(value) & subgroupBroadcast(seen_by_any, t));
      [[unroll]] for (uint m = 0; m < QUERIES; ++m) {
        const float more = fma(weight[m][t], value, new_sum[m]);
        new_sum[m] = whole || TOKENS == 1 || weight[m][t] >= 0.0 ? more : new_sum[m];
      }
    }
    [[unroll]] for (uint m = 0; m < QUERIES; ++m) sum[m][i] = new_sum[m];
  }
}

// Stores the results of query m.
void finish(uint m, uint rows) {
  const float all = lane_sum(total[m]);
  const float share = all > 0.0 ? 1.0 / all : 0.0;
  if (!is_stored(m, rows)) return;
  const uint row = first_token() + m / HEADS;
  if (KEEP == 1u && LANE < 2u) sums[row * p.sums_stride + query_head(m) * 2u + LANE] = LANE == 0u ? maximum[m] : all;
  const uint at = row * p.result_stride;
  [[unroll]] for (uint i = 0; i < OWN; ++i) result[at + query_head(m) * HEAD_DIM + i * 8u + LANE] = sum[m][i] * share;
  if (query_head(m) != p.heads - 1u) return;
  for (uint column = columns() + LANE; column < (columns() + 31u) / 32u * 32u; column += 8u) result[at + column] = 0.0;
}

void main() {
  const uint rows = step_block[0][ROWS_TOKENS];
  if (first_token() >= rows) return;
#ifdef ROTARY
  rotate_and_store(0u, LOCAL_HEADS);
  memoryBarrierBuffer();
  barrier();
#endif
  Row row[TOKENS];
  [[unroll]] for (uint t = 0; t < TOKENS; ++t) row[t] = read_row(first_token() + t, rows);
  [[unroll]] for (uint m = 0; m < QUERIES; ++m) begin(m, rows);

  // The rows mostly have one source. Where they have several, each source is a pass of its own. A pass of several rows has two
  // rounds: tiles that not all rows see whole and those after them that they do, then the tiles after these.
  const uint ROUNDS = TOKENS == 1 ? 1 : 2 * TOKENS;
  bool seen[TOKENS];
  for (uint round = 0; round < ROUNDS; ++round) {
    const SourceRange range = source_range(row, round / 2u);
    const uint base = source_base(range.source);
    const uint tiles = p.capacity / 8u;
    int tile = range.first >> 3, mixed_end = (range.last >> 3) + 1, whole_end = 0;
    if (TOKENS > 1) {
      const ivec2 whole = whole_tiles(row, range);
      tile = round % 2u == 0u ? tile : whole.y;
      mixed_end = round % 2u == 0u ? whole.x : mixed_end;
      whole_end = round % 2u == 0u ? whole.y : 0;
    }
    uint slot = uint(tile) % tiles; // the tile's place in the ring

    [[dont_unroll]] for (; tile < mixed_end; ++tile) {
      const int position = tile * 8 + int(LANE);
      [[unroll]] for (uint t = 0; t < TOKENS; ++t) seen[t] = sees(row[t], range, position);
      add_tile((position_base(base, range.source, uint(tile) * 8u) + slot) * KEY_TILE_QUADS, row, position, seen, false);
      slot = slot + 1u == tiles ? 0u : slot + 1u;
    }
    if (TOKENS == 1) continue;
    [[dont_unroll]] for (; tile < whole_end; ++tile) {
      add_tile((position_base(base, range.source, uint(tile) * 8u) + slot) * KEY_TILE_QUADS, row, tile * 8 + int(LANE), seen, true);
      slot = slot + 1u == tiles ? 0u : slot + 1u;
    }
  }
  [[unroll]] for (uint m = 0; m < QUERIES; ++m) finish(m, rows);
}
