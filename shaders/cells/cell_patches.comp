#version 460
// Some of the columns of one row to a workgroup. What a picture lacks at its lower and right edges is zeros.
// variant: -
#extension GL_GOOGLE_include_directive : require
#include "cells/cells.glsl"
#include "common/types.glsl"
#include "cells/cell_patches.params.h"

layout(local_size_x_id = 0) in;
layout(push_constant) uniform Push { CellPatchesParams p; };
READ_BUFFER(uvec4, step_block, CELL_PATCHES_STEP);
READ_BUFFER(float, pixels, CELL_PATCHES_PIXELS);
WRITE_BUFFER(float, result, CELL_PATCHES_RESULT);

void main() {
  const uint row = gl_WorkGroupID.x;
  if (row >= step_block[0][ROWS_TOKENS]) return;
  const uvec4 token = step_block[STEP_HEADER_QUADS + row];
  const uint place = token.y - token.w; // of the cell
  const bool filled = token.x < step_block[0][ROWS_OUTPUTS] && place < p.count;
  const uvec2 cell = uvec2(place % p.cells, place / p.cells) * p.side;
  const uint area = p.patch_height * p.patch_width, columns = p.channels * area;
  for (uint i = gl_GlobalInvocationID.y * gl_WorkGroupSize.x + gl_LocalInvocationID.x; i < p.out_stride;
       i += gl_NumWorkGroups.y * gl_WorkGroupSize.x) {
    const uint patch_number = i / columns, channel = i % columns / area, within = i % area;
    float v = 0.0;
    if (filled && patch_number < p.side * p.side) {
      const uvec2 at = cell + pixel_place(patch_number);
      const uint y = at.y * p.patch_height + within / p.patch_width, x = at.x * p.patch_width + within % p.patch_width;
      if (y < p.height && x < p.width) v = pixels[token.x * p.pixels_stride + (channel * p.height + y) * p.width + x];
    }
    result[row * p.out_stride + i] = v;
  }
}
