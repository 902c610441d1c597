#version 460
// A workgroup takes one direction of one input, from its first row on, one position after the other; an invocation
// computes some of the state's columns.
// variant: -
#extension GL_GOOGLE_include_directive : require
#include "common/types.glsl"
#include "recurrence/gru.params.h"

layout(local_size_x_id = 0) in;
layout(constant_id = GRU_HIDDEN_ID) const uint HIDDEN = 1;
layout(push_constant) uniform Push { GruParams p; };
READ_BUFFER(uvec4, step_block, GRU_STEP);
READ_BUFFER(float, gates, GRU_GATES);
READ_BUFFER(float, backward_gates, GRU_BACKWARD);
READ_BUFFER(float, weights, GRU_WEIGHTS);
WRITE_BUFFER(float, result, GRU_RESULT);

const uint STATE = (HIDDEN + 31u) / 32u * 32u;
shared float state[STATE];

#include "recurrence/gru_cell.glsl"

uvec4 step_row(uint row) { return step_block[STEP_HEADER_QUADS + row]; }

void main() {
  const uint row = gl_WorkGroupID.x, direction = gl_WorkGroupID.y, me = gl_LocalInvocationID.x;
  const uint rows = step_block[0][ROWS_TOKENS];
  if (row >= rows || step_row(row).y != step_row(row).w) return;
  const uint length = min(step_block[p.details + row].w - step_row(row).w, rows - row);
  // Of the launches of a long input, a short one needs only the first. (A driver ends the process where all that is left is
  // barriers that nobody reaches.)
  if (p.first_step >= length) return;
  const bool backward = direction == 1u;
  const uint own = direction * HIDDEN, matrix = direction * p.direction;

  const uint end = min(p.first_step + p.steps, length);
  for (uint i = me; i < STATE; i += gl_WorkGroupSize.x) {
    state[i] = 0.0;
    if (p.first_step != 0u && i < HIDDEN) {
      const uint before = backward ? length - p.first_step : p.first_step - 1u;
      state[i] = result[(row + before) * p.out_stride + own + i];
    }
  }
  barrier();
  for (uint n = p.first_step; n < end; ++n) {
    const uint at = row + (backward ? length - 1u - n : n);
    const uint x = at * (backward ? p.backward_stride : p.gates_stride);
    // Every invocation reads the whole state before any of them writes to it.
    float next[MOST_COLUMNS];
    for (uint k = 0u; k < COLUMNS; ++k) {
      const uint i = me + k * gl_WorkGroupSize.x;
      if (i >= HIDDEN) break;
      vec3 g;
      for (uint j = 0u; j < 3u; ++j) g[j] = backward ? backward_gates[x + j * HIDDEN + i] : gates[x + j * HIDDEN + i];
      next[k] = gru_cell(g, recurrent(matrix, matrix + p.bias, i), state[i]);
    }
    barrier();
    for (uint k = 0u; k < COLUMNS; ++k) {
      const uint i = me + k * gl_WorkGroupSize.x;
      if (i >= HIDDEN) break;
      state[i] = next[k];
      result[at * p.out_stride + own + i] = next[k];
    }
    const uint columns = p.directions * HIDDEN;
    if (direction == 0u) {
      for (uint i = columns + me; i < (columns + 31u) / 32u * 32u; i += gl_WorkGroupSize.x) result[at * p.out_stride + i] = 0.0;
    }
    barrier();
  }
}
