#version 460
// For CPU drivers: a workgroup is one 8-lane vector, which keeps the states of a run's CHANNELS channels in registers. Eight
// rows' steps are computed at a time, a lane's each.
// variant: -
#extension GL_GOOGLE_include_directive : require
#include "common/types.glsl"
#include "common/cpu8.glsl"
#include "recurrence/selective_scan.params.h"

layout(local_size_x_id = 0) in;
layout(constant_id = SELECTIVE_SCAN_LOG_A_ID) const uint LOG_A = 1;
layout(constant_id = SELECTIVE_SCAN_SIZE_ID) const uint SIZE = 128;
layout(constant_id = SELECTIVE_SCAN_CHANNELS_ID) const uint CHANNELS = 2;
layout(constant_id = SELECTIVE_SCAN_LOAD_ID) const uint LOAD = LOAD_LANE;
layout(constant_id = SELECTIVE_SCAN_WIDE_ID) const uint WIDE = 0;
layout(push_constant) uniform Push { SelectiveScanParams p; };
READ_BUFFER(uvec4, step_block, SELECTIVE_SCAN_STEP);
READ_BUFFER(float, x, SELECTIVE_SCAN_X);
READ_BUFFER(float, b, SELECTIVE_SCAN_B);
READ_BUFFER(float, c, SELECTIVE_SCAN_C);
READ_BUFFER(float, steps, SELECTIVE_SCAN_STEPS);
READ_BUFFER(float, weights, SELECTIVE_SCAN_WEIGHTS);
WRITE_BUFFER(float, state, SELECTIVE_SCAN_STATE);
WRITE_BUFFER(float, result, SELECTIVE_SCAN_RESULT);

#include "common/state.glsl"
#include "recurrence/padding.glsl"
#include "recurrence/scan_time.glsl"
#include "recurrence/cpu8_vectors.glsl"

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
  const uint head = channel / p.head_dim, group = head / p.group_heads * SIZE;
  const float rate = scan_rate(head), skip = scan_skip(head);
  float rates[VECTORS];
  [[unroll]] for (uint i = 0; i < VECTORS; ++i) {
    rates[i] = 0.0;
    if (WIDE != 0u && 8u * i + LANE < SIZE) rates[i] = scan_rate(head * SIZE + 8u * i + LANE);
  }
  float s[CHANNELS][VECTORS];
  load_state(token, channel, s);

  uint position = token.y, lane = 8u;
  float lane_time = 0.0, lane_keep = 0.0;
  for (bool more = true; more;) {
    if (lane == 8u) {
      lane_time = scan_time(min(row + LANE, rows - 1u), head);
      lane_keep = exp(lane_time * rate);
      lane = 0u;
    }
    const float time = subgroupShuffle(lane_time, lane), keep = subgroupShuffle(lane_keep, lane);
    const uint b_at = row * p.b_stride + group, c_at = row * p.c_stride + group;
    const uvec2 b_address = offset_address(p.b, b_at * 4u), c_address = offset_address(p.c, c_at * 4u);
    float own[CHANNELS], values[CHANNELS];
    [[unroll]] for (uint m = 0; m < CHANNELS; ++m) {
      own[m] = x[row * p.x_stride + channel + m];
      values[m] = 0.0;
    }
    [[unroll]] for (uint i = 0; i < VECTORS; ++i) {
      const float bn = LOAD == LOAD_UNIFORM ? uniform_vector(b_address, i) : LOAD_VECTOR(b, b_at, i);
      const float cn = LOAD == LOAD_UNIFORM ? uniform_vector(c_address, i) : LOAD_VECTOR(c, c_at, i);
      const float kept = WIDE != 0u ? exp(time * rates[i]) : keep;
      [[unroll]] for (uint m = 0; m < CHANNELS; ++m) {
        const float next = s[m][i] * kept + time * own[m] * bn;
        values[m] += next * cn;
        s[m][i] = next;
      }
    }
    [[unroll]] for (uint m = 0; m < CHANNELS; ++m) values[m] = lane_sum(values[m]) + skip * own[m];
    store_results(row * p.out_stride + channel, values);
    ++row;
    ++position;
    ++lane;
    more = row < rows && goes_on(row);
    if (is_stored(token.z, position, row, rows, p.drafts)) store_state(token.z, position, channel, s);
  }
}
