#version 460
// Adds up the sums that split attention stored for each span of positions. A workgroup takes one head of one row; an
// invocation takes every gl_WorkGroupSize.x-th dimension.
// variant: -
#extension GL_GOOGLE_include_directive : require
#include "common/types.glsl"
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
layout(constant_id = ATTENTION_SPAN_ID) const uint SPAN = 256;
layout(push_constant) uniform Push { AttentionParams p; };
READ_BUFFER(uvec4, step_block, ATTENTION_STEP);
READ_BUFFER(float, spans, ATTENTION_ALL_SPANS);
WRITE_BUFFER(float, result, ATTENTION_RESULT);
WRITE_BUFFER(float, sums, ATTENTION_SUMS);

#define CACHE_TYPE CACHE_F32
#include "attention/attention_rows.glsl"
#include "attention/attention_spans.glsl"

const uint SPANS_AHEAD = 16; // whose loads are under way before the first is used

void main() {
  const uint rows = step_block[0][ROWS_TOKENS];
  const uint head = gl_WorkGroupID.x, token = first_token();
  if (token >= rows) return;
  const Row row = read_row(token, rows);
  const uint at = token * p.result_stride;
  const uint count = span_count(row);
  for (uint d = gl_LocalInvocationID.x; d < HEAD_DIM; d += gl_WorkGroupSize.x) {
    float maximum = SINKS == 1u ? finite_score(sinks[head] * LOG2_E) : NO_SCORE, total = FIRST_TOTAL, sum = 0.0;
    for (uint first = 0; first < count; first += SPANS_AHEAD) {
      float maxima[SPANS_AHEAD], totals[SPANS_AHEAD], sums_of_span[SPANS_AHEAD];
      [[unroll]] for (uint j = 0; j < SPANS_AHEAD; ++j) {
        const uint from = span_place(gl_WorkGroupID.y, head, min(first + j, count - 1u));
        maxima[j] = spans[from + HEAD_DIM];
        totals[j] = spans[from + HEAD_DIM + 1u];
        sums_of_span[j] = spans[from + d];
      }
      [[unroll]] for (uint j = 0; j < SPANS_AHEAD; ++j) {
        if (first + j >= count) break;
        const Rescale rescale = merge(maximum, maxima[j]);
        maximum = rescale.maximum;
        total = merged(total, totals[j], rescale);
        sum = merged(sum, sums_of_span[j], rescale);
      }
    }
    result[at + head * HEAD_DIM + d] = total > 0.0 ? sum * (1.0 / total) : 0.0;
    if (KEEP == 1u && d == 0u) {
      sums[token * p.sums_stride + head * 2u] = maximum;
      sums[token * p.sums_stride + head * 2u + 1u] = total;
    }
  }
  if (head == p.heads - 1u) {
    const uint end = (columns() + 31u) / 32u * 32u;
    for (uint column = columns() + gl_LocalInvocationID.x; column < end; column += gl_WorkGroupSize.x) result[at + column] = 0.0;
  }
}
