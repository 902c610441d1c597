#version 460
// Attention with cooperative matrices of any size M x N x K that divides a tile. A workgroup takes ROWS queries: the heads
// of a group for some tokens. It goes over the positions that any of them sees in tiles of KEYS, counted from the
// sequence's start.
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
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#extension GL_KHR_cooperative_matrix : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_shuffle : require
#include "common/types.glsl"
#include "common/half.glsl"
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
layout(push_constant) uniform Push { AttentionParams p; };
READ_BUFFER(uvec4, step_block, ATTENTION_STEP);
READ_BUFFER(float, q, ATTENTION_Q);
READ_BUFFER(uvec4, keys, ATTENTION_KEYS);
READ_BUFFER(uvec4, values, ATTENTION_VALUES);
WRITE_BUFFER(float, result, ATTENTION_RESULT);
WRITE_BUFFER(float, spans, ATTENTION_SPANS);

#include "attention/attention_rows.glsl"
#include "attention/attention_shared_rows.glsl"
#include "attention/attention_f16.glsl"

const uint WORKGROUP = gl_WorkGroupSize.x;
const uint GROUPS = WORKGROUP / GROUP;
const uint STRIPS = ROWS / M; // rows of matrices
// The subgroups are divided among the matrices: GROUPS_DOWN share the strips, GROUPS_ACROSS share the columns.
const uint GROUPS_DOWN = STRIPS < GROUPS ? STRIPS : GROUPS;
const uint GROUPS_ACROSS = GROUPS / GROUPS_DOWN;
const uint DOWN = STRIPS / GROUPS_DOWN;
const uint SCORE_COLUMNS = KEYS / N;
const uint SCORES_ACROSS = (SCORE_COLUMNS + GROUPS_ACROSS - 1) / GROUPS_ACROSS;
const uint VALUE_COLUMNS = DIM / N;
const uint VALUES_ACROSS = (VALUE_COLUMNS + GROUPS_ACROSS - 1) / GROUPS_ACROSS;
// In quads of four scores, and of eight weights.
const uint SCORE_STRIDE = KEYS / 4 + 1;
const uint WEIGHT_STRIDE = KEYS / 8 + 1;

// The scores of a tile. When they are not needed, it holds one matrix of sums of each subgroup.
const uint TILE_SCORES = ROWS * SCORE_STRIDE, ONE_EACH = GROUPS * M * N / 4;
shared vec4 scores[TILE_SCORES > ONE_EACH ? TILE_SCORES : ONE_EACH];
shared uvec4 weights[ROWS * WEIGHT_STRIDE];
shared float maximum[ROWS]; // of the positions so far, rounded up
shared float total[ROWS];   // of their weights
shared float rescale_factor[ROWS]; // takes the sums of a row to the maximum of this tile
shared uint any_rescale; // 1: the factor of some row is not 1

const float WEIGHT_ONE = 32768.0;

#define MATRIX_SUMS coopmat<float, gl_ScopeSubgroup, M, N, gl_MatrixUseAccumulator>

uint group_row() { return GROUPS == 1u ? 0u : gl_SubgroupID / GROUPS_ACROSS; }
uint group_column() { return GROUPS == 1u ? 0u : gl_SubgroupID % GROUPS_ACROSS; }
uint first_row(uint down) { return (group_row() * DOWN + down) * M; }
uint own_scores() { return (GROUPS == 1u ? 0u : gl_SubgroupID) * (M * N / 4); }
// This subgroup's columns of matrices. The last one may be past the end.
uint column(uint across) { return across * GROUPS_ACROSS + group_column(); }

// The dot products of all queries with the keys of the tile.
void score_tile() {
  MATRIX_SUMS own[DOWN * SCORES_ACROSS];
  [[unroll]] for (uint i = 0; i < DOWN * SCORES_ACROSS; ++i) own[i] = MATRIX_SUMS(0.0);
  [[dont_unroll]] for (uint k = 0; k < DIM / K; ++k) {
    coopmat<float16_t, gl_ScopeSubgroup, M, K, gl_MatrixUseA> a[DOWN];
    [[unroll]] for (uint i = 0; i < DOWN; ++i) {
      coopMatLoad(a[i], queries, first_row(i) * QUAD_STRIDE + k * (K / 8), QUAD_STRIDE,
                  gl_CooperativeMatrixLayoutRowMajor);
    }
    [[unroll]] for (uint j = 0; j < SCORES_ACROSS; ++j) {
      if (column(j) >= SCORE_COLUMNS) continue;
      coopmat<float16_t, gl_ScopeSubgroup, K, N, gl_MatrixUseB> b;
      coopMatLoad(b, tile, column(j) * N * QUAD_STRIDE + k * (K / 8), QUAD_STRIDE,
                  gl_CooperativeMatrixLayoutColumnMajor);
      [[unroll]] for (uint i = 0; i < DOWN; ++i) {
        own[i * SCORES_ACROSS + j] = coopMatMulAdd(a[i], b, own[i * SCORES_ACROSS + j]);
      }
    }
  }
  [[unroll]] for (uint i = 0; i < DOWN; ++i) {
    [[unroll]] for (uint j = 0; j < SCORES_ACROSS; ++j) {
      if (column(j) >= SCORE_COLUMNS) continue;
      coopMatStore(own[i * SCORES_ACROSS + j], scores, first_row(i) * SCORE_STRIDE + column(j) * (N / 4), SCORE_STRIDE,
                   gl_CooperativeMatrixLayoutRowMajor);
    }
  }
}

// 2^(a - b) of whole numbers, exactly; 0 where that is too small.
float power_of_two(float a, float b) { return uintBitsToFloat(uint(max(a - b + 127.0, 0.0)) << 23); }

// Turns the tile's scores into weights. Eight lanes share a row; of each sixteen positions a lane takes two neighbours.
void weigh_tile(SourceRange range, int begin) {
  [[dont_unroll]] for (uint m = own_eight(); m < ROWS; m += WORKGROUP / 8u) {
    const Row own = row_of(m);
    float score[KEYS / 8], largest = NO_SCORE;
    [[unroll]] for (uint i = 0; i < KEYS / 8; ++i) {
      const uint t = i / 2 * 16 + LANE * 2u + i % 2;
      score[i] = NO_SCORE;
      if (m < QUERIES && sees(own, range, begin + int(t))) {
        score[i] = final_score(scores[m * SCORE_STRIDE + t / 4][t % 4] * unscale[m] * score_scale(), m, own, begin + int(t));
      }
      largest = max(largest, score[i]);
    }
    [[unroll]] for (uint n = 1; n < 8; n *= 2) largest = max(largest, subgroupShuffleXor(largest, n));
    const float old_maximum = maximum[m], new_maximum = max(old_maximum, ceil(largest));
    float sum = 0.0;
    [[unroll]] for (uint i = 0; i < KEYS / 16; ++i) {
      vec2 pair;
      [[unroll]] for (uint j = 0; j < 2; ++j) {
        const float one = score[i * 2 + j];
        pair[j] = one > NO_SCORE ? round_to_half(WEIGHT_ONE * exp2(one - new_maximum)) : 0.0;
      }
      // Four lanes have a quad; one of them writes it.
      const uint own = packFloat2x16(f16vec2(pair));
      const uvec4 words = uvec4(own, subgroupShuffleXor(own, 1u), subgroupShuffleXor(own, 2u), subgroupShuffleXor(own, 3u));
      if (LANE % 4u == 0u) weights[m * WEIGHT_STRIDE + i * 2 + LANE / 4u] = words;
      sum += pair.x + pair.y;
    }
    [[unroll]] for (uint n = 1; n < 8; n *= 2) sum += subgroupShuffleXor(sum, n);
    if (LANE == 0u) {
      // Where nothing has been added yet there is nothing to rescale.
      const float factor = old_maximum == NO_SCORE ? 1.0 : power_of_two(old_maximum, new_maximum);
      maximum[m] = new_maximum;
      rescale_factor[m] = factor;
      total[m] = total[m] * factor + sum;
      if (factor != 1.0) any_rescale = 1u;
    }
  }
}

void store_matrix(uint row0, uint column0, uint rows) {
  [[dont_unroll]] for (uint e = gl_SubgroupInvocationID; e < M * N; e += GROUP) {
    const uint m = row0 + e / N, d = column0 + e % N;
    if (m >= QUERIES || d >= HEAD_DIM || !is_stored(m, rows)) continue;
    const float share = total[m] > 0.0 ? 1.0 / total[m] : 0.0;
    const uint at = (first_token() + m / HEADS) * p.result_stride;
    result[at + query_head(m) * HEAD_DIM + d] = scores[own_scores() + e / 4u][e % 4u] * share;
  }
}

// Where a query's sums are carried from one part of the cache to the next: as one span.
uint carried_place(uint m) { return ((first_token() + m / HEADS) * p.heads + query_head(m)) * (HEAD_DIM + 2u); }

void take_matrix(uint row0, uint column0, uint rows) {
  [[dont_unroll]] for (uint e = gl_SubgroupInvocationID; e < M * N / 4; e += GROUP) {
    const uint m = row0 + e / (N / 4), d0 = column0 + e % (N / 4) * 4u;
    vec4 taken = vec4(0.0);
    if (m < QUERIES && is_stored(m, rows)) {
      [[unroll]] for (uint i = 0; i < 4; ++i) {
        if (d0 + i < HEAD_DIM) taken[i] = spans[carried_place(m) + d0 + i];
      }
    }
    scores[own_scores() + e] = taken;
  }
}

void leave_matrix(uint row0, uint column0, uint rows) {
  [[dont_unroll]] for (uint e = gl_SubgroupInvocationID; e < M * N; e += GROUP) {
    const uint m = row0 + e / N, d = column0 + e % N;
    if (m < QUERIES && d < HEAD_DIM && is_stored(m, rows)) spans[carried_place(m) + d] = scores[own_scores() + e / 4u][e % 4u];
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

void main() {
  const uint rows = step_block[0][ROWS_TOKENS];
  if (first_token() >= rows) return;
  read_rows(rows);
  load_queries(rows);
  for (uint m = gl_LocalInvocationID.x; m < ROWS; m += WORKGROUP) {
    maximum[m] = SINKS == 1u ? ceil(first_maximum(m)) : NO_SCORE;
    total[m] = SINKS == 1u ? WEIGHT_ONE * exp2(first_maximum(m) - maximum[m]) : 0.0;
    if (CARRY_TAKES && m < QUERIES && is_stored(m, rows)) {
      maximum[m] = spans[carried_place(m) + HEAD_DIM];
      total[m] = spans[carried_place(m) + HEAD_DIM + 1u];
    }
  }
  clear_padding();
  barrier();
  find_source_ranges();
  barrier();

  MATRIX_SUMS sums[DOWN * VALUES_ACROSS]; // of this subgroup's part of the result
  [[unroll]] for (uint i = 0; i < DOWN * VALUES_ACROSS; ++i) sums[i] = MATRIX_SUMS(0.0);
  if (CARRY_TAKES) {
    [[unroll]] for (uint i = 0; i < DOWN; ++i) {
      [[unroll]] for (uint j = 0; j < VALUES_ACROSS; ++j) {
        take_matrix(first_row(i), column(j) * N, rows);
        subgroupBarrier();
        coopMatLoad(sums[i * VALUES_ACROSS + j], scores, own_scores(), N / 4, gl_CooperativeMatrixLayoutRowMajor);
        subgroupBarrier();
      }
    }
    barrier(); // the matrices have passed through the scores' memory
  }
  for (uint lead = 0; lead < TOKENS; ++lead) {
    const SourceRange range = source_range(lead);
    const uint base = source_base(range.source);
    [[dont_unroll]] for (int begin = range.first / int(KEYS) * int(KEYS); begin <= range.last; begin += int(KEYS)) {
      load_keys(base, range.source, uint(begin));
      if (gl_LocalInvocationID.x == 0u) any_rescale = 0u;
      barrier();
      score_tile();
      barrier(); // all keys have been read: the values overwrite them
      load_values(base, range.source, uint(begin));
      weigh_tile(range, begin);
      barrier();
      if (any_rescale == 1u) {
        // The sums pass through shared memory, because only the device knows which invocation holds which elements of a matrix.
        [[unroll]] for (uint i = 0; i < DOWN; ++i) {
          [[unroll]] for (uint j = 0; j < VALUES_ACROSS; ++j) {
            coopMatStore(sums[i * VALUES_ACROSS + j], scores, own_scores(), N / 4, gl_CooperativeMatrixLayoutRowMajor);
            subgroupBarrier();
            [[dont_unroll]] for (uint e = gl_SubgroupInvocationID; e < M * N / 4; e += GROUP) {
              scores[own_scores() + e] *= rescale_factor[first_row(i) + e / (N / 4)];
            }
            subgroupBarrier();
            coopMatLoad(sums[i * VALUES_ACROSS + j], scores, own_scores(), N / 4, gl_CooperativeMatrixLayoutRowMajor);
            subgroupBarrier();
          }
        }
      }
      [[unroll]] for (uint k = 0; k < KEYS / K; ++k) {
        coopmat<float16_t, gl_ScopeSubgroup, M, K, gl_MatrixUseA> a[DOWN];
        [[unroll]] for (uint i = 0; i < DOWN; ++i) {
          coopMatLoad(a[i], weights, first_row(i) * WEIGHT_STRIDE + k * (K / 8), WEIGHT_STRIDE,
                      gl_CooperativeMatrixLayoutRowMajor);
        }
        [[unroll]] for (uint j = 0; j < VALUES_ACROSS; ++j) {
          if (column(j) >= VALUE_COLUMNS) continue;
          coopmat<float16_t, gl_ScopeSubgroup, K, N, gl_MatrixUseB> b;
          coopMatLoad(b, tile, k * K * QUAD_STRIDE + column(j) * (N / 8), QUAD_STRIDE,
                      gl_CooperativeMatrixLayoutRowMajor);
          [[unroll]] for (uint i = 0; i < DOWN; ++i) {
            sums[i * VALUES_ACROSS + j] = coopMatMulAdd(a[i], b, sums[i * VALUES_ACROSS + j]);
          }
        }
      }
      barrier();
    }
  }

  [[unroll]] for (uint i = 0; i < DOWN; ++i) {
    [[unroll]] for (uint j = 0; j < VALUES_ACROSS; ++j) {
      coopMatStore(sums[i * VALUES_ACROSS + j], scores, own_scores(), N / 4, gl_CooperativeMatrixLayoutRowMajor);
      subgroupBarrier();
      if (CARRY_LEAVES) {
        leave_matrix(first_row(i), column(j) * N, rows);
      } else {
        store_matrix(first_row(i), column(j) * N, rows);
      }
      subgroupBarrier();
    }
  }
  if (CARRY_LEAVES) {
    for (uint m = gl_LocalInvocationID.x; m < QUERIES; m += WORKGROUP) {
      if (!is_stored(m, rows)) continue;
      spans[carried_place(m) + HEAD_DIM] = maximum[m];
      spans[carried_place(m) + HEAD_DIM + 1u] = total[m];
    }
  } else {
    store_padding(rows);
  }
}
