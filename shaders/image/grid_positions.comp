#version 460
// Some of the columns of one row to a workgroup, four at a time to an invocation.
// variant: -
#extension GL_GOOGLE_include_directive : require
#include "common/columns.glsl"
#include "common/types.glsl"
#include "image/grid_positions.params.h"

layout(local_size_x_id = 0) in;
layout(constant_id = GRID_POSITIONS_RULE_ID) const uint RULE = GRID_POSITIONS_LINEAR;
layout(push_constant) uniform Push { GridPositionsParams p; };
READ_BUFFER(uvec4, step_block, GRID_POSITIONS_STEP);
READ_BUFFER(vec4, x, GRID_POSITIONS_X);
READ_BUFFER(float, table, GRID_POSITIONS_TABLE);
WRITE_BUFFER(vec4, result, GRID_POSITIONS_RESULT);

const uint TAPS = RULE == GRID_POSITIONS_CUBIC ? 4u : RULE == GRID_POSITIONS_BEFORE ? 1u : 2u;

// The lines of the table that one of a picture's is made of, and their shares.
struct Lines {
  uvec4 at;
  vec4 shares;
};

// By Keys' cubic convolution (1981), with -3/4 as its parameter; in factors, whose small results are exact.
vec4 cubic_shares(float t) {
  const vec2 x = vec2(t, 1.0 - t), rest = 1.0 - x; // how far the two inner lines are
  const vec2 inner = rest * (1.0 + x - 1.25 * x * x), outer = -0.75 * x * rest * rest;
  return vec4(outer.x, inner.x, inner.y, outer.y);
}

// Whole numbers, so that a place on a line has that line alone.
Lines lines_of(uint place, uint lines) {
  const uint last = p.side - 1u;
  if (RULE == GRID_POSITIONS_BEFORE)
    return Lines(uvec4(min(place * p.side / max(lines, 1u), last), 0u, 0u, 0u), vec4(1.0, 0.0, 0.0, 0.0));
  if (RULE == GRID_POSITIONS_LINEAR) {
    const uint steps = max(lines, 2u) - 1u, scaled = min(place, steps) * last, first = scaled / steps;
    const float share = float(scaled % steps) / float(steps);
    return Lines(uvec4(first, min(first + 1u, last), 0u, 0u), vec4(1.0 - share, share, 0.0, 0.0));
  }
  // One line more than there is, so that the numbers are not below zero. Those beyond an edge are the edge's.
  const uint steps = 2u * max(lines, 1u), scaled = (2u * place + 1u) * p.side + max(lines, 1u);
  const uvec4 at = scaled / steps + uvec4(0u, 1u, 2u, 3u);
  return Lines(min(max(at, 2u) - 2u, uvec4(last)), cubic_shares(float(scaled % steps) / float(steps)));
}

void main() {
  const uint row = gl_WorkGroupID.x;
  if (row >= step_block[0][ROWS_TOKENS]) return;
  const uint grid = step_block[STEP_HEADER_QUADS + row].x, place = step_block[p.details + row].z;
  const uint last = p.side - 1u;
  const Lines down = lines_of(place >> 16, grid >> 16), across = lines_of(place & 0xffffu, grid & 0xffffu);
  const uint to = row * (p.out_stride >> 2), padded_quads = ((p.columns + 31u) >> 5) * 8u;
  for (uint i = gl_GlobalInvocationID.y * gl_WorkGroupSize.x + gl_LocalInvocationID.x; i < padded_quads;
       i += gl_NumWorkGroups.y * gl_WorkGroupSize.x) {
    vec4 v = x[row * (p.x_stride >> 2) + i];
    for (uint j = 0; j < 4u; ++j) {
      const uint column = 4u * i + j;
      if (column >= p.columns) break;
      if (RULE == GRID_POSITIONS_APART) {
        const uint first = min(place & 0xffffu, last), second = p.side + min(place >> 16, last);
        v[j] += table[first * p.columns + column] + table[second * p.columns + column];
        continue;
      }
      float value = 0.0;
      for (uint line = 0; line < TAPS; ++line) {
        for (uint tap = 0; tap < TAPS; ++tap) {
          const uint from = down.at[line] * p.side + across.at[tap];
          value = fma(down.shares[line] * across.shares[tap], table[from * p.columns + column], value);
        }
      }
      v[j] += value;
    }
    result[to + i] = keep_columns(v, i, p.columns);
  }
}
