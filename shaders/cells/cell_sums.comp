#version 460
// Some of the columns of one row to a workgroup, four at a time to an invocation.
// variant: -
#extension GL_GOOGLE_include_directive : require
#include "cells/cells.glsl"
#include "common/activation.glsl"
#include "common/types.glsl"
#include "cells/cell_sums.params.h"

layout(local_size_x_id = 0) in;
layout(constant_id = CELL_SUMS_ACTIVATION_ID) const uint ACTIVATION = 0;
layout(constant_id = CELL_SUMS_RESIDUAL_ID) const uint RESIDUAL = 0;
layout(push_constant) uniform Push { CellSumsParams p; };
READ_BUFFER(uvec4, step_block, CELL_SUMS_STEP);
READ_BUFFER(vec4, x, CELL_SUMS_X);
READ_BUFFER(vec4, bias, CELL_SUMS_BIAS);
READ_BUFFER(vec4, residual, CELL_SUMS_RESIDUAL);
WRITE_BUFFER(vec4, result, CELL_SUMS_RESULT);

void main() {
  const uint row = gl_WorkGroupID.x;
  if (row >= step_block[0][p.rows_kind]) return;
  uvec2 cell = uvec2(0u);
  if (p.side != 0u) {
    const uvec4 token = step_block[STEP_HEADER_QUADS + row];
    const uint place = token.y - token.w; // of the cell
    cell = uvec2(place % p.cells, place / p.cells) * p.side;
  }
  const uint quads = p.channels >> 2, all = p.out_stride >> 2;
  for (uint i = gl_GlobalInvocationID.y * gl_WorkGroupSize.x + gl_LocalInvocationID.x; i < all;
       i += gl_NumWorkGroups.y * gl_WorkGroupSize.x) {
    vec4 v = vec4(0.0);
    const uint pixel = i / quads;
    if (pixel < p.pixels) {
      const uvec2 at = p.side == 0u ? uvec2(0u) : cell + pixel_place(pixel);
      if (at.x < p.width && at.y < p.height) {
        v = x[row * (p.x_stride >> 2) + i] + bias[i % quads];
        for (uint j = 0; j < 4u; ++j) v[j] = activate(ACTIVATION, v[j]);
        if (RESIDUAL != 0u) v += residual[row * (p.residual_stride >> 2) + i];
      }
    }
    result[row * all + i] = v;
  }
}
