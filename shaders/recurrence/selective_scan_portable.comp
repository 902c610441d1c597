#version 460
// A channel of a run to an invocation, which makes the state after each row from that before it.
// variant: -
#extension GL_GOOGLE_include_directive : require
#include "common/types.glsl"
#include "recurrence/selective_scan.params.h"

layout(local_size_x_id = 0) in;
layout(constant_id = SELECTIVE_SCAN_LOG_A_ID) const uint LOG_A = 1;
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
  const uint group = head / p.group_heads * p.size;
  const float rate = scan_rate(head), skip = scan_skip(head);

  uint position = token.y;
  for (bool more = true; more;) {
    const float time = scan_time(row, head);
    const float keep = exp(time * rate);
    const uint b_at = row * p.b_stride + group, c_at = row * p.c_stride + group;
    const float own = x[row * p.x_stride + channel], change = time * own;
    const uint from = state_at(token.z, position, p.checkpoints, p.drafts, size) + channel;
    const uint to = state_at(token.z, position + 1u, p.checkpoints, p.drafts, size) + channel;
    const bool begins = position == token.w; // with zeros
    float sum = 0.0;
    for (uint n = 0; n < p.size; ++n) {
      const float before = begins ? 0.0 : state[from + n * p.columns];
      const float kept = WIDE != 0u ? exp(time * scan_rate(head * p.size + n)) : keep;
      const float s = before * kept + change * b[b_at + n];
      state[to + n * p.columns] = s;
      sum += s * c[c_at + n];
    }
    result[row * p.out_stride + channel] = sum + skip * own;
    ++row;
    ++position;
    more = row < rows && goes_on(row);
  }
}
