#version 460
// A channel of a run to an invocation, which makes the state after each row from that before it. The lengths of queries and
// keys are summed beside the products, so that rows need not be made unit vectors first.
// variant: -
#extension GL_GOOGLE_include_directive : require
#include "common/types.glsl"
#include "recurrence/delta_rule.params.h"

layout(local_size_x_id = 0) in;
layout(push_constant) uniform Push { DeltaRuleParams p; };
READ_BUFFER(uvec4, step_block, DELTA_RULE_STEP);
READ_BUFFER(float, query, DELTA_RULE_QUERY);
READ_BUFFER(float, key, DELTA_RULE_KEY);
READ_BUFFER(float, value, DELTA_RULE_VALUE);
READ_BUFFER(float, gates, DELTA_RULE_GATES);
WRITE_BUFFER(float, state, DELTA_RULE_STATE);
WRITE_BUFFER(float, result, DELTA_RULE_RESULT);

#include "common/state.glsl"
#include "recurrence/padding.glsl"
#include "recurrence/unit_length.glsl"

void main() {
  uint row = p.first_row + gl_WorkGroupID.x;
  const uint rows = min(step_block[0][ROWS_TOKENS], p.end_row);
  if (row >= rows || (row > p.first_row && goes_on(row))) return;
  const uint channel = gl_WorkGroupID.y * gl_WorkGroupSize.x + gl_LocalInvocationID.x;
  if (channel >= ((p.columns + 31u) & ~31u)) return;
  if (channel >= p.columns) {
    clear_column(row, rows, channel);
    return;
  }
  const uvec4 token = step_row(row);
  const uint size = p.size * p.columns;
  const uint head = channel / p.head_dim;
  const uint key_head = head / p.key_share % p.key_heads * p.size;
  const uint heads = p.columns / p.head_dim;

  uint position = token.y;
  for (bool more = true; more;) {
    const uint q_at = row * p.query_stride + key_head, k_at = row * p.key_stride + key_head;
    const float keep = gates[row * p.gates_stride + head], share = gates[row * p.gates_stride + heads + head];
    const uint from = state_at(token.z, position, p.checkpoints, p.drafts, size) + channel;
    const uint to = state_at(token.z, position + 1u, p.checkpoints, p.drafts, size) + channel;
    const bool begins = position == token.w; // with zeros
    float known = 0.0, q_length = 0.0, k_length = 0.0;
    for (uint n = 0; n < p.size; ++n) {
      const float kn = key[k_at + n], qn = query[q_at + n];
      if (!begins) known += state[from + n * p.columns] * kn;
      k_length += kn * kn;
      q_length += qn * qn;
    }
    const float k_scale = unit_scale(k_length);
    const float q_scale = unit_scale(q_length) / sqrt(float(p.size));
    const float change = (value[row * p.value_stride + channel] - known * keep * k_scale) * share * k_scale;
    float sum = 0.0;
    for (uint n = 0; n < p.size; ++n) {
      const float before = begins ? 0.0 : state[from + n * p.columns];
      const float s = before * keep + key[k_at + n] * change;
      state[to + n * p.columns] = s;
      sum += s * query[q_at + n];
    }
    result[row * p.out_stride + channel] = sum * q_scale;
    ++row;
    ++position;
    more = row < rows && goes_on(row);
  }
}
