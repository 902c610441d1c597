#version 460
// Attention with cooperative matrices of any size M x N x K that divides a tile. A workgroup takes ROWS queries: the heads
// of a group for some tokens. It goes over the positions that any of them sees in tiles of KEYS, counted from the
// sequence's start. Where a subgroup has whole rows (GROUPS_ACROSS is 1), the workgroup only waits for the tiles.
// Queries, keys, weights and values are rounded to 16-bit floats (f16) when they are written to shared memory. Scores and
// sums have 32 bits. f16 keeps 11 bits: the error of a score is about 2^-12 of its terms' root mean square, the error of a
// weight is 2^-12 of the weight. Each query is first multiplied by a power of two that takes its largest number to 2^14 or
// just above. So no number overflows, and only numbers 2^28 times smaller lose bits. Keys and values outside the range of
// f16 are clamped. Weights are exponentials times 2^15: only weights 2^29 times smaller than the largest lose bits. The sum
// of the weights is made from the rounded weights, so a rounded weight does not shift the mean of the values.
// A row's maximum is rounded up to a whole number. The factor for older sums is then a power of two, mostly 1, and rescaling
// is exact. A row's arithmetic does not depend on the rows that share its workgroup.
// variant: f32 CACHE_TYPE=0
// variant: f16 CACHE_TYPE=1
// variant: q8_0 CACHE_TYPE=2
// variant: f16_q8_0 KEY_TYPE=1 VALUE_TYPE=2
// variant: q8_0_f16 KEY_TYPE=2 VALUE_TYPE=1
// variant: q4_0 CACHE_TYPE=3
// variant: q8_0_q4_0 KEY_TYPE=2 VALUE_TYPE=3
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#extension GL_KHR_cooperative_matrix : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_shuffle : require
#include "common/types.glsl"
#include "attention/attention.params.h"

layout(local_size_x = 128, local_size_x_id = 0) in;
layout(constant_id = ATTENTION_HEAD_DIM_ID) const uint HEAD_DIM = 64;
layout(constant_id = ATTENTION_CAPPED_ID) const uint CAPPED = 0;
layout(constant_id = ATTENTION_MASK_ID) const uint MASK = ATTENTION_MASK_CAUSAL;
layout(constant_id = ATTENTION_BIASED_ID) const uint BIASED = 0;
layout(constant_id = ATTENTION_SHARED_ID) const uint SHARED = 0;
layout(constant_id = ATTENTION_HEADS_ID) const uint HEADS = 1;
layout(constant_id = ATTENTION_TOKENS_ID) const uint TOKENS = 32;
layout(constant_id = ATTENTION_ROWS_ID) const uint ROWS = 32; // HEADS * TOKENS or somewhat more
layout(constant_id = ATTENTION_GROUP_ID) const uint GROUP = 32; // invocations of a subgroup, at least 8
layout(constant_id = ATTENTION_M_ID) const uint M = 16;
layout(constant_id = ATTENTION_N_ID) const uint N = 16;
layout(constant_id = ATTENTION_K_ID) const uint K = 16;
layout(constant_id = ATTENTION_HELD_ID) const uint HELD = 0; // 1: queries are kept in registers
layout(constant_id = ATTENTION_APART_ID) const uint APART = 1; // 1: keys and values have memory of their own, see main()
layout(constant_id = ATTENTION_AHEAD_ID) const uint AHEAD = 8; // quads of keys, and of values, that an invocation loads ahead
layout(push_constant) uniform Push { AttentionParams p; };
READ_BUFFER(uvec4, step_block, ATTENTION_STEP);
READ_BUFFER(float, q, ATTENTION_Q);
READ_BUFFER(uvec4, keys, ATTENTION_KEYS);
READ_BUFFER(uvec4, values, ATTENTION_VALUES);
WRITE_BUFFER(float, result, ATTENTION_RESULT);
WRITE_BUFFER(float, spans, ATTENTION_SPANS);

#include "attention/attention_rows.glsl"
#include "attention/attention_shared_rows.glsl"

const uint WORKGROUP = gl_WorkGroupSize.x;
const uint GROUPS = WORKGROUP / GROUP;
// Behind the tile in `operands` are its scores, which its weights overwrite. When neither is needed, one matrix of sums of
// each subgroup lies there.
const uint SCORE_STRIDE = ATTENTION_MATRIX_KEYS / 4 + 1; // in quads; they spread rows over the memory banks
const uint TILE_SCORES = ROWS * SCORE_STRIDE, ONE_EACH = GROUPS * M * N / 4;
const uint AFTER_TILE = TILE_SCORES > ONE_EACH ? TILE_SCORES : ONE_EACH;
#include "attention/attention_f16.glsl"

const uint STRIPS = ROWS / M; // rows of matrices
// The subgroups are divided among the matrices: GROUPS_DOWN share the strips, GROUPS_ACROSS share the columns.
const uint GROUPS_DOWN = STRIPS < GROUPS ? STRIPS : GROUPS;
const uint GROUPS_ACROSS = GROUPS / GROUPS_DOWN;
const uint DOWN = STRIPS / GROUPS_DOWN;
const uint SCORE_COLUMNS = KEYS / N;
const uint SCORES_ACROSS = (SCORE_COLUMNS + GROUPS_ACROSS - 1) / GROUPS_ACROSS;
const uint VALUE_COLUMNS = DIM / N;
const uint VALUES_ACROSS = (VALUE_COLUMNS + GROUPS_ACROSS - 1) / GROUPS_ACROSS;
const uint SCORES_AT = TILE_END;
// Neighbouring lanes share a row: each takes OWN neighbouring positions of a tile.
const uint LANES = WORKGROUP / ROWS; // 1, 2, 4 or 8
const uint OWN = KEYS / LANES;

shared uvec4 factors[ROWS / 4]; // takes the sums of a row to the maximum of this tile
shared uint rescales[GROUPS];   // 1: the factor of some row is not 1; of a subgroup with whole rows, or the first's of all
shared float total[ROWS];       // of the weights, at the end
shared uint unusual;            // 1: a row of the workgroup is not `own_usual`

const float WEIGHT_BITS = 15.0;
// No bias and no cap: a score is its dot product times a number of the row, which need not be multiplied to compare.
const bool PLAIN = BIASED == 0u && CAPPED == 0u;

#define MATRIX_SUMS coopmat<float, gl_ScopeSubgroup, M, N, gl_MatrixUseAccumulator>

uint group_row() { return GROUPS == 1u ? 0u : gl_SubgroupID / GROUPS_ACROSS; }
uint group_column() { return GROUPS_ACROSS == 1u ? 0u : gl_SubgroupID % GROUPS_ACROSS; }
uint first_row(uint down) { return (group_row() * DOWN + down) * M; }
uint own_scores() { return SCORES_AT + (GROUPS == 1u ? 0u : gl_SubgroupID) * (M * N / 4); }
uint own_flag() { return GROUPS_ACROSS == 1u && GROUPS > 1u ? gl_SubgroupID : 0u; }
// This subgroup's columns of matrices. The last one may be past the end.
uint column(uint across) { return across * GROUPS_ACROSS + group_column(); }

// Waits for those who have parts of the same rows.
void wait_for_rows() {
  if (GROUPS_ACROSS == 1u) {
    subgroupBarrier();
  } else {
    barrier();
  }
}

// Where a query's sums are carried from one part of the cache to the next: as one span.
uint carried_place(uint m) { return ((first_token() + m / HEADS) * p.heads + query_head(m)) * (HEAD_DIM + 2u); }

// The lane's row. Lanes that share one have the same.
uint own_m;
Row own;
float own_scale;   // of its scores
float own_maximum; // of its scores so far, rounded up
float own_total;   // of their weights
bool own_usual;    // no score can pass the limit, nor vanish beside NO_SCORE: none has to be looked at
uint row_lane() { return gl_SubgroupInvocationID % LANES; }

void begin_row(uint rows) {
  own_m = gl_SubgroupID * (GROUP / LANES) + gl_SubgroupInvocationID / LANES;
  own = row_of(own_m);
  own_scale = unscale[own_m] * score_scale();
  // A dot product of halves, of which the queries' are below 2^15, is below 2^41.
  own_usual = own_scale >= exp2(-60.0) && own_scale <= 1.0;
  if (!own_usual) unusual = 1u;
  own_maximum = SINKS == 1u ? ceil(first_maximum(own_m)) : NO_SCORE;
  own_total = SINKS == 1u ? exp2(first_maximum(own_m) - own_maximum + WEIGHT_BITS) : 0.0;
  if (CARRY_TAKES && own_m < QUERIES && is_stored(own_m, rows)) {
    own_maximum = spans[carried_place(own_m) + HEAD_DIM];
    own_total = spans[carried_place(own_m) + HEAD_DIM + 1u];
  }
}

// 2^(a - b) of whole numbers, exactly; 0 where that is too small.
float power_of_two(float a, float b) { return uintBitsToFloat(uint(max(a - b + 127.0, 0.0)) << 23); }

// Rounds to the 11 bits of a 16-bit float, in which it then lies exactly. Compilers may replace unpack(pack(a)) by a.
float rounded_weight(float a) {
  precise const float larger = a * 8193.0; // the bits that are to go fall off beside it
  precise const float rest = larger - a;
  precise const float rounded = larger - rest;
  return rounded;
}

// Each quad by names: by an index, drivers may write all of it.
void set_factor(float factor) {
  const uint at = own_m / 4u, word = floatBitsToUint(factor);
  if (own_m % 4u == 0u) factors[at].x = word;
  if (own_m % 4u == 1u) factors[at].y = word;
  if (own_m % 4u == 2u) factors[at].z = word;
  if (own_m % 4u == 3u) factors[at].w = word;
}

// Turns the tile's scores into weights. `whole`: all rows of the workgroup see all of its positions, and are usual. The bits
// of a row are the same then as otherwise.
void weigh_tile(SourceRange range, int begin, bool whole) {
  const uint scores_at = SCORES_AT + own_m * SCORE_STRIDE;
  float score[OWN], largest = NO_SCORE;
  [[unroll]] for (uint i = 0; i < OWN / 4; ++i) {
    const vec4 four = uintBitsToFloat(operands[scores_at + row_lane() * (OWN / 4) + i]);
    [[unroll]] for (uint j = 0; j < 4; ++j) score[i * 4 + j] = four[j];
  }
  const bool multiplied = !PLAIN || !own_usual; // by own_scale
  if (PLAIN && whole) {
    [[unroll]] for (uint i = 0; i < OWN; ++i) largest = max(largest, score[i]);
  } else {
    // Of the tile's positions the row sees those whose distance from its first one is less than this.
    const uint seen = own_m < QUERIES && own.source == range.source ? uint(max(own.last - own.first + 1, 0)) : 0u;
    const int first = begin + int(row_lane() * OWN);
    if (multiplied) {
      [[unroll]] for (uint i = 0; i < OWN; ++i) score[i] = final_score(score[i] * own_scale, own_m, own, first + int(i));
    }
    [[unroll]] for (uint i = 0; i < OWN; ++i) {
      if (uint(first + int(i) - own.first) >= seen) score[i] = NO_SCORE;
      largest = max(largest, score[i]);
    }
  }
  [[unroll]] for (uint n = 1; n < LANES; n *= 2) largest = max(largest, subgroupShuffleXor(largest, n));
  const float scale = multiplied ? 1.0 : own_scale;
  const float new_maximum = max(own_maximum, largest > NO_SCORE ? ceil(largest * scale) : NO_SCORE);
  // Without a score so far all are NO_SCORE, of which the exponential must be 0, as it is beside any score.
  const float shift = new_maximum > NO_SCORE ? WEIGHT_BITS - new_maximum : 0.0;
  // The sum of neighbours, then of neighbouring pairs, and so on: its order does not depend on LANES.
  float sums[OWN / 4];
  uint words[OWN / 2];
  [[unroll]] for (uint i = 0; i < OWN / 4; ++i) {
    vec4 four;
    [[unroll]] for (uint j = 0; j < 4; ++j) four[j] = rounded_weight(exp2(min(fma(score[i * 4 + j], scale, shift), WEIGHT_BITS)));
    words[i * 2] = packFloat2x16(f16vec2(four.xy));
    words[i * 2 + 1] = packFloat2x16(f16vec2(four.zw));
    sums[i] = (four.x + four.y) + (four.z + four.w);
  }
  [[unroll]] for (uint n = 1; n < OWN / 4; n *= 2) {
    [[unroll]] for (uint i = 0; i < OWN / 4; i += 2 * n) sums[i] += sums[i + n];
  }
  float sum = sums[0];
  [[unroll]] for (uint n = 1; n < LANES; n *= 2) sum += subgroupShuffleXor(sum, n);
  // Where nothing has been added yet there is nothing to rescale.
  const float factor = own_maximum == NO_SCORE ? 1.0 : power_of_two(own_maximum, new_maximum);
  own_maximum = new_maximum;
  own_total = own_total * factor + sum;
  subgroupBarrier(); // the row's scores have been read
  const uint at = scores_at + row_lane() * OWN / 8u;
  if (OWN >= 8u) {
    [[unroll]] for (uint i = 0; i < OWN / 8; ++i) {
      operands[at + i] = uvec4(words[4 * i], words[4 * i + 1], words[4 * i + 2], words[4 * i + 3]);
    }
  } else if (row_lane() % 2u == 0u) {
    operands[at].xy = uvec2(words[0], words[1]);
  } else {
    operands[at].zw = uvec2(words[0], words[1]);
  }
  if (row_lane() == 0u) {
    set_factor(factor);
    if (factor != 1.0) rescales[own_flag()] = 1u;
  }
}

void store_matrix(uint row0, uint column0, uint rows) {
  [[dont_unroll]] for (uint e = gl_SubgroupInvocationID; e < M * N; e += GROUP) {
    const uint m = row0 + e / N, d = column0 + e % N;
    if (m >= QUERIES || d >= HEAD_DIM || !is_stored(m, rows)) continue;
    const float share = total[m] > 0.0 ? 1.0 / total[m] : 0.0;
    const uint at = (first_token() + m / HEADS) * p.result_stride;
    result[at + query_head(m) * HEAD_DIM + d] = uintBitsToFloat(operands[own_scores() + e / 4u][e % 4u]) * share;
  }
}

void take_matrix(uint row0, uint column0, uint rows) {
  [[dont_unroll]] for (uint e = gl_SubgroupInvocationID; e < M * N / 4; e += GROUP) {
    const uint m = row0 + e / (N / 4), d0 = column0 + e % (N / 4) * 4u;
    vec4 taken = vec4(0.0);
    if (m < QUERIES && is_stored(m, rows)) {
      [[unroll]] for (uint i = 0; i < 4; ++i) {
        if (d0 + i < HEAD_DIM) taken[i] = spans[carried_place(m) + d0 + i];
      }
    }
    operands[own_scores() + e] = floatBitsToUint(taken);
  }
}

void leave_matrix(uint row0, uint column0, uint rows) {
  [[dont_unroll]] for (uint e = gl_SubgroupInvocationID; e < M * N; e += GROUP) {
    const uint m = row0 + e / N, d = column0 + e % N;
    if (m >= QUERIES || d >= HEAD_DIM || !is_stored(m, rows)) continue;
    spans[carried_place(m) + d] = uintBitsToFloat(operands[own_scores() + e / 4u][e % 4u]);
  }
}

void store_padding(uint rows) {
  const uint end = (columns() + 31u) / 32u * 32u;
  if (columns() == end) return;
  for (uint m = 0; m < QUERIES; ++m) {
    if (!is_stored(m, rows) || query_head(m) != p.heads - 1u) continue;
    const uint at = (first_token() + m / HEADS) * p.result_stride;
    for (uint i = columns() + gl_LocalInvocationID.x; i < end; i += WORKGROUP) result[at + i] = 0.0;
  }
}

#define MATRIX_QUERIES coopmat<float16_t, gl_ScopeSubgroup, M, K, gl_MatrixUseA>
#define MATRIX_OPERAND coopmat<float16_t, gl_ScopeSubgroup, K, N, gl_MatrixUseB>
#define LOAD_QUERIES(a, i, k) \
  coopMatLoad(a, operands, first_row(i) * QUAD_STRIDE + (k) * (K / 8), QUAD_STRIDE, gl_CooperativeMatrixLayoutRowMajor)
// The dot products of queries with the keys of the tile, for K dimensions: a is an array of matrices of queries from `first`.
#define ADD_SCORES(sums, a, first, k) \
  [[unroll]] for (uint j = 0; j < SCORES_ACROSS; ++j) { \
    if (column(j) >= SCORE_COLUMNS) continue; \
    MATRIX_OPERAND b; \
    coopMatLoad(b, operands, KEYS_AT + column(j) * N * QUAD_STRIDE + (k) * (K / 8), QUAD_STRIDE, \
                gl_CooperativeMatrixLayoutColumnMajor); \
    [[unroll]] for (uint i = 0; i < DOWN; ++i) { \
      sums[i * SCORES_ACROSS + j] = coopMatMulAdd(a[first + i], b, sums[i * SCORES_ACROSS + j]); \
    } \
  }

// Where a tile's keys and values lie apart, both are loaded while the tile before is multiplied. Otherwise the values are
// loaded while the tile's scores are computed, and the next keys while the values are multiplied: an invocation needs half of
// the registers, and the workgroup waits twice more.
void main() {
  const uint rows = step_block[0][ROWS_TOKENS];
  if (first_token() >= rows) return;
  read_rows(rows);
  load_queries(rows);
  if (gl_LocalInvocationIndex == 0u) unusual = 0u;
  barrier();
  find_source_ranges();
  begin_row(rows);
  MATRIX_QUERIES held[HELD == 1u ? DIM / K * DOWN : 1u];
  if (HELD == 1u) {
    [[unroll]] for (uint k = 0; k < DIM / K; ++k) {
      [[unroll]] for (uint i = 0; i < DOWN; ++i) LOAD_QUERIES(held[k * DOWN + i], i, k);
    }
  }
  barrier();
  clear_padding();

  MATRIX_SUMS sums[DOWN * VALUES_ACROSS]; // of this subgroup's part of the result
  [[unroll]] for (uint i = 0; i < DOWN * VALUES_ACROSS; ++i) sums[i] = MATRIX_SUMS(0.0);
  if (CARRY_TAKES) {
    [[dont_unroll]] for (uint n = 0; n < DOWN * VALUES_ACROSS; ++n) {
      take_matrix(first_row(n / VALUES_ACROSS), column(n % VALUES_ACROSS) * N, rows);
      subgroupBarrier();
      [[unroll]] for (uint i = 0; i < DOWN * VALUES_ACROSS; ++i) {
        if (i == n) coopMatLoad(sums[i], operands, own_scores(), N / 4, gl_CooperativeMatrixLayoutRowMajor);
      }
      subgroupBarrier();
    }
    barrier(); // the matrices have passed through the scores' memory
  }
  for (uint lead = 0; lead < TOKENS; ++lead) {
    const SourceRange range = source_range(lead);
    if (range.first > range.last) continue;
    const int tile0 = range.first / int(KEYS) * int(KEYS);
    const ivec2 whole = PLAIN && unusual == 0u ? whole_begins(lead, int(KEYS)) : ivec2(0, -1);
    TilePlace tile = place_of(source_base(range.source), range.source, uint(tile0), uint(tile0) / 8u % (p.capacity / 8u));
    load_keys(tile);
    if (APART == 1u) load_values(tile);
    [[dont_unroll]] for (int begin = tile0; begin <= range.last; begin += int(KEYS)) {
      const TilePlace next = place_of(tile.base, tile.source, tile.begin + KEYS, in_ring(tile.first + KEYS / 8u));
      store_keys(tile);
      if (APART == 1u) store_values(tile);
      if (gl_SubgroupInvocationID == 0u) rescales[gl_SubgroupID] = 0u;
      barrier();
      if (APART == 1u) {
        load_keys(next);
        load_values(next);
      } else {
        load_values(tile);
      }

      MATRIX_SUMS products[DOWN * SCORES_ACROSS];
      [[unroll]] for (uint i = 0; i < DOWN * SCORES_ACROSS; ++i) products[i] = MATRIX_SUMS(0.0);
      if (HELD == 1u) {
        [[unroll]] for (uint k = 0; k < DIM / K; ++k) {
          ADD_SCORES(products, held, k * DOWN, k)
        }
      } else {
        [[dont_unroll]] for (uint k = 0; k < DIM / K; ++k) {
          MATRIX_QUERIES a[DOWN];
          [[unroll]] for (uint i = 0; i < DOWN; ++i) LOAD_QUERIES(a[i], i, k);
          ADD_SCORES(products, a, 0, k)
        }
      }
      [[unroll]] for (uint i = 0; i < DOWN; ++i) {
        [[unroll]] for (uint j = 0; j < SCORES_ACROSS; ++j) {
          if (column(j) >= SCORE_COLUMNS) continue;
          coopMatStore(products[i * SCORES_ACROSS + j], operands,
                       SCORES_AT + first_row(i) * SCORE_STRIDE + column(j) * (N / 4), SCORE_STRIDE,
                       gl_CooperativeMatrixLayoutRowMajor);
        }
      }
      if (APART == 1u) {
        wait_for_rows();
      } else {
        barrier(); // all keys have been read: the values overwrite them
        store_values(tile);
      }
      weigh_tile(range, begin, begin >= whole.x && begin <= whole.y);
      if (APART == 0u) load_keys(next);
      tile = next;
      if (APART == 1u) {
        wait_for_rows();
      } else {
        barrier();
      }
      if (rescales[own_flag()] == 1u) {
        [[unroll]] for (uint i = 0; i < DOWN; ++i) {
          MATRIX_SUMS factor; // each column is the rows' factors
          coopMatLoad(factor, factors, first_row(i) / 4u, 0u, gl_CooperativeMatrixLayoutColumnMajor);
          [[unroll]] for (uint j = 0; j < VALUES_ACROSS; ++j) sums[i * VALUES_ACROSS + j] *= factor;
        }
      }
      [[unroll]] for (uint k = 0; k < KEYS / K; ++k) {
        MATRIX_QUERIES a[DOWN];
        [[unroll]] for (uint i = 0; i < DOWN; ++i) {
          coopMatLoad(a[i], operands, SCORES_AT + first_row(i) * SCORE_STRIDE + k * (K / 8), SCORE_STRIDE,
                      gl_CooperativeMatrixLayoutRowMajor);
        }
        [[unroll]] for (uint j = 0; j < VALUES_ACROSS; ++j) {
          if (column(j) >= VALUE_COLUMNS) continue;
          MATRIX_OPERAND b;
          coopMatLoad(b, operands, VALUES_AT + k * K * QUAD_STRIDE + column(j) * (N / 8), QUAD_STRIDE,
                      gl_CooperativeMatrixLayoutRowMajor);
          [[unroll]] for (uint i = 0; i < DOWN; ++i) {
            sums[i * VALUES_ACROSS + j] = coopMatMulAdd(a[i], b, sums[i * VALUES_ACROSS + j]);
          }
        }
      }
      barrier();
    }
  }
  if (row_lane() == 0u) total[own_m] = own_total;
  barrier();

  // A matrix is always named by a constant. Drivers keep an array in memory where a loop that they leave as one indexes it.
  [[dont_unroll]] for (uint n = 0; n < DOWN * VALUES_ACROSS; ++n) {
    [[unroll]] for (uint i = 0; i < DOWN * VALUES_ACROSS; ++i) {
      if (i == n) coopMatStore(sums[i], operands, own_scores(), N / 4, gl_CooperativeMatrixLayoutRowMajor);
    }
    subgroupBarrier();
    if (CARRY_LEAVES) {
      leave_matrix(first_row(n / VALUES_ACROSS), column(n % VALUES_ACROSS) * N, rows);
    } else {
      store_matrix(first_row(n / VALUES_ACROSS), column(n % VALUES_ACROSS) * N, rows);
    }
    subgroupBarrier();
  }
  if (CARRY_LEAVES) {
    if (row_lane() == 0u && own_m < QUERIES && is_stored(own_m, rows)) {
      spans[carried_place(own_m) + HEAD_DIM] = own_maximum;
      spans[carried_place(own_m) + HEAD_DIM + 1u] = own_total;
    }
  } else {
    store_padding(rows);
  }
}
