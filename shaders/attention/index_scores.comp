#version 460
// The score of each position that a row sees: the sum over all heads of weight * max(scale * query . key, 0), where all heads
// have one key (the lightning indexer of DeepSeek V3.2). A workgroup takes one row and a span of positions; HEADS queries at a
// time are in shared memory. A position's arithmetic does not depend on the others.
// variant: f32 CACHE_TYPE=0
// variant: f16 CACHE_TYPE=1
// variant: q8_0 CACHE_TYPE=2
// variant: q4_0 CACHE_TYPE=3
#extension GL_GOOGLE_include_directive : require
#include "common/types.glsl"
#include "attention/attention.params.h"
#include "attention/chosen_positions.params.h"

layout(local_size_x_id = 0) in;
layout(constant_id = ATTENTION_HEAD_DIM_ID) const uint HEAD_DIM = 64;
layout(constant_id = ATTENTION_SHARED_ID) const uint SHARED = 0;
layout(constant_id = ATTENTION_HEADS_ID) const uint HEADS = 1;
const uint CAPPED = 0;
const uint MASK = ATTENTION_MASK_CAUSAL;
const uint BIASED = 0;
const uint TOKENS = 1;
layout(push_constant) uniform Push {
  AttentionParams p;
  IndexScoresParams index;
};
READ_BUFFER(uvec4, step_block, ATTENTION_STEP);
READ_BUFFER(float, q, ATTENTION_Q);
READ_BUFFER(uvec4, keys, ATTENTION_KEYS);
READ_BUFFER(float, weights, INDEX_WEIGHTS);
WRITE_BUFFER(float, scores, INDEX_SCORES);

#include "attention/attention_rows.glsl"
#include "attention/attention_scores.glsl"

shared float head_weight[HEADS];

// Heads past the end have no weight.
void load_heads(uint token, uint first) {
  for (uint i = OWN; i < HEADS * DIM_PADDED; i += BLOCK) {
    const uint head = first + i / DIM_PADDED, d = i % DIM_PADDED;
    query[i] = head < p.heads && d < HEAD_DIM ? q[p.q_first + token * p.q_stride + head * HEAD_DIM + d] * p.scale : 0.0;
  }
  for (uint m = OWN; m < HEADS; m += BLOCK) {
    head_weight[m] = first + m < p.heads ? weights[index.weights_first + token * index.weights_stride + first + m] : 0.0;
  }
}

void main() {
  const uint rows = step_block[0][ROWS_TOKENS];
  const uint token = first_token();
  if (token >= rows) return;
  const Row row = read_row(token, rows);
  if (row.position - read_row(token, rows, false).first < int(index.most)) return;
  const int begin = int(gl_WorkGroupID.z * index.span);
  const int first = max(row.first, begin), end = min(row.last + 1, begin + int(index.span));
  if (first >= end) return;

  const uint base = source_base(row.source);
  const uint at = gl_WorkGroupID.y * p.result_stride;
  for (uint head = 0; head < p.heads; head += HEADS) {
    barrier();
    load_heads(token, head);
    barrier();
    [[dont_unroll]] for (int position = first + int(OWN); position < end; position += int(BLOCK)) {
      float product[QUERIES];
      score_position(position_base(base, row.source, uint(position)), uint(position), product);
      float sum = head == 0u ? 0.0 : scores[at + uint(position)];
      [[unroll]] for (uint m = 0; m < HEADS; ++m) sum = fma(head_weight[m], max(product[m], 0.0), sum);
      scores[at + uint(position)] = sum;
    }
  }
}
