#version 460
// Attention weights, computed again from the largest score and the sum that the attention kernel kept for each row and
// head. A workgroup takes one head of one row; an invocation takes every gl_WorkGroupSize.x-th position.
// variant: f32 CACHE_TYPE=0
// variant: f16 CACHE_TYPE=1
// variant: q8_0 CACHE_TYPE=2
// variant: f16_q8_0 KEY_TYPE=1 VALUE_TYPE=2
// variant: q8_0_f16 KEY_TYPE=2 VALUE_TYPE=1
// variant: q4_0 CACHE_TYPE=3
// variant: q8_0_q4_0 KEY_TYPE=2 VALUE_TYPE=3
#extension GL_GOOGLE_include_directive : require
#include "common/types.glsl"
#include "attention/attention.params.h"

layout(local_size_x_id = 0) in;
layout(constant_id = ATTENTION_HEAD_DIM_ID) const uint HEAD_DIM = 64;
layout(constant_id = ATTENTION_CAPPED_ID) const uint CAPPED = 0;
layout(constant_id = ATTENTION_MASK_ID) const uint MASK = ATTENTION_MASK_CAUSAL;
layout(constant_id = ATTENTION_BIASED_ID) const uint BIASED = 0;
layout(constant_id = ATTENTION_SHARED_ID) const uint SHARED = 0;
const uint HEADS = 1;
const uint TOKENS = 1;
layout(push_constant) uniform Push { AttentionParams p; };
READ_BUFFER(uvec4, step_block, ATTENTION_STEP);
READ_BUFFER(float, q, ATTENTION_Q);
READ_BUFFER(uvec4, keys, ATTENTION_KEYS);
WRITE_BUFFER(float, result, ATTENTION_RESULT);
READ_BUFFER(float, sums, ATTENTION_SUMS);

#include "attention/attention_rows.glsl"
#include "attention/attention_scores.glsl"

void main() {
  const uint rows = step_block[0][ROWS_TOKENS];
  const uint token = first_token();
  if (token >= rows) return;
  load_queries(rows);
  barrier();

  const Row row = read_row(token, rows);
  if (!is_stored(0u, rows)) return;
  const uint base = source_base(row.source);
  const uint head = query_head(0);
  const float maximum = sums[token * p.sums_stride + head * 2u];
  const float total = sums[token * p.sums_stride + head * 2u + 1u];
  const float share = total > 0.0 ? 1.0 / total : 0.0;
  const uint at = token * p.result_stride + head * p.context;
  for (uint column = OWN; column < p.context; column += BLOCK) {
    const int position = first_column(row) + int(column);
    if (PARTS == CACHE_PARTS_POSITIONS && (position < int(p.part_first) || position >= int(p.position_limit))) continue;
    float w = 0.0;
    if (position >= row.first && position <= row.last && is_chosen(row, position)) {
      float score[QUERIES];
      score_position(position_base(base, row.source, uint(position)), uint(position), score);
      w = exp2(final_score(score[0], 0u, row, position) - maximum) * share;
    }
    result[at + column] = w;
  }
  if (head == p.heads - 1u) {
    const uint columns = p.heads * p.context;
    for (uint column = columns + OWN; column < (columns + 31u) / 32u * 32u; column += BLOCK) {
      result[token * p.result_stride + column] = 0.0;
    }
  }
}
