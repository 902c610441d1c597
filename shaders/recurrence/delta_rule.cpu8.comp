#version 460
// For CPU drivers: a workgroup is one 8-lane vector, which keeps the states of a run's CHANNELS channels in registers. What a
// query reads of the new state is what it reads of the old one and of the change, so that one pass over the state is enough.
// variant: -
#extension GL_GOOGLE_include_directive : require
#include "common/types.glsl"
#include "common/cpu8.glsl"
#include "recurrence/delta_rule.params.h"

layout(local_size_x_id = 0) in;
layout(constant_id = DELTA_RULE_SIZE_ID) const uint SIZE = 128;
layout(constant_id = DELTA_RULE_CHANNELS_ID) const uint CHANNELS = 2;
layout(constant_id = DELTA_RULE_LOAD_ID) const uint LOAD = LOAD_LANE;
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
#include "recurrence/cpu8_vectors.glsl"

void load_pair(uint q_at, uint k_at, out float q[VECTORS], out float k[VECTORS]) {
  const uvec2 q_address = offset_address(p.query, q_at * 4u), k_address = offset_address(p.key, k_at * 4u);
  [[unroll]] for (uint i = 0; i < VECTORS; ++i) {
    q[i] = LOAD == LOAD_UNIFORM ? uniform_vector(q_address, i) : LOAD_VECTOR(query, q_at, i);
    k[i] = LOAD == LOAD_UNIFORM ? uniform_vector(k_address, i) : LOAD_VECTOR(key, k_at, i);
  }
}

void main() {
  uint row = gl_WorkGroupID.x;
  const uint rows = step_block[0][ROWS_TOKENS];
  if (row >= rows || goes_on(row)) return;
  const uint channel = gl_WorkGroupID.y * CHANNELS;
  if (channel >= p.columns) {
    if (LANE < CHANNELS) clear_column(row, rows, channel + LANE);
    return;
  }
  const uvec4 token = step_row(row);
  const uint head = channel / p.head_dim;
  const uint key_head = head / p.key_share % p.key_heads * SIZE;
  const uint heads = p.columns / p.head_dim;
  float s[CHANNELS][VECTORS];
  load_state(token, channel, s);

  uint position = token.y;
  for (bool more = true; more;) {
    float q[VECTORS], k[VECTORS];
    load_pair(row * p.query_stride + key_head, row * p.key_stride + key_head, q, k);
    const float keep = gates[row * p.gates_stride + head], share = gates[row * p.gates_stride + heads + head];
    float qq = 0.0, kk = 0.0, qk = 0.0, known[CHANNELS], seen[CHANNELS], values[CHANNELS];
    [[unroll]] for (uint c = 0; c < CHANNELS; ++c) known[c] = seen[c] = 0.0;
    [[unroll]] for (uint i = 0; i < VECTORS; ++i) {
      qq += q[i] * q[i];
      kk += k[i] * k[i];
      qk += q[i] * k[i];
      [[unroll]] for (uint c = 0; c < CHANNELS; ++c) {
        known[c] += s[c][i] * k[i];
        seen[c] += s[c][i] * q[i];
      }
    }
    const float k_scale = unit_scale(lane_sum(kk));
    const float q_scale = unit_scale(lane_sum(qq)) / sqrt(float(SIZE));
    const float query_key = lane_sum(qk);
    [[unroll]] for (uint c = 0; c < CHANNELS; ++c) {
      const float own = value[row * p.value_stride + channel + c];
      const float change = (own - lane_sum(known[c]) * keep * k_scale) * share * k_scale;
      values[c] = (lane_sum(seen[c]) * keep + query_key * change) * q_scale;
      [[unroll]] for (uint i = 0; i < VECTORS; ++i) s[c][i] = s[c][i] * keep + k[i] * change;
    }
    store_results(row * p.out_stride + channel, values);
    ++row;
    ++position;
    more = row < rows && goes_on(row);
    if (is_stored(token.z, position, row, rows, p.drafts)) store_state(token.z, position, channel, s);
  }
}
