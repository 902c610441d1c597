#version 460
// Some of the columns of one row to a workgroup, four at a time to an invocation.
// variant: -
#extension GL_GOOGLE_include_directive : require
#include "common/columns.glsl"
#include "common/types.glsl"
#include "image/grid_positions.params.h"

layout(local_size_x_id = 0) in;
layout(push_constant) uniform Push { GridPositionsParams p; };
READ_BUFFER(uvec4, step_block, GRID_POSITIONS_STEP);
READ_BUFFER(vec4, x, GRID_POSITIONS_X);
READ_BUFFER(float, table, GRID_POSITIONS_TABLE);
WRITE_BUFFER(vec4, result, GRID_POSITIONS_RESULT);

// Between which two lines of the table one of a picture's lies, and how near it is to the second of them.
struct Between {
  uint first, second;
  float share;
};

// The picture's first and last line are the table's. Whole numbers, so that a place on a line has that line alone.
Between between(uint place, uint lines) {
  const uint steps = max(lines, 2u) - 1u, scaled = min(place, steps) * (p.side - 1u);
  const uint first = scaled / steps;
  return Between(first, min(first + 1u, p.side - 1u), float(scaled % steps) / float(steps));
}

void main() {
  const uint row = gl_WorkGroupID.x;
  if (row >= step_block[0][ROWS_TOKENS]) return;
  const uint grid = step_block[STEP_HEADER_QUADS + row].x, place = step_block[p.details + row].z;
  const Between down = between(place >> 16, grid >> 16), across = between(place & 0xffffu, grid & 0xffffu);
  const uvec4 lines = uvec4(down.first, down.first, down.second, down.second) * p.side;
  const uvec4 from = (lines + uvec4(across.first, across.second, across.first, across.second)) * p.columns;
  const vec2 d = vec2(1.0 - down.share, down.share), a = vec2(1.0 - across.share, across.share);
  const vec4 shares = d.xxyy * a.xyxy;
  const uint to = row * (p.out_stride >> 2), padded_quads = ((p.columns + 31u) >> 5) * 8u;
  for (uint i = gl_GlobalInvocationID.y * gl_WorkGroupSize.x + gl_LocalInvocationID.x; i < padded_quads;
       i += gl_NumWorkGroups.y * gl_WorkGroupSize.x) {
    vec4 v = x[row * (p.x_stride >> 2) + i];
    for (uint j = 0; j < 4u; ++j) {
      const uint column = 4u * i + j;
      if (column >= p.columns) break;
      v[j] += dot(shares, vec4(table[from.x + column], table[from.y + column], table[from.z + column],
                               table[from.w + column]));
    }
    result[to + i] = keep_columns(v, i, p.columns);
  }
}
