#version 460
// Some of the columns of one row to a workgroup, four at a time to an invocation.
// variant: -
#extension GL_GOOGLE_include_directive : require
#include "common/types.glsl"
#include "image/patches.params.h"

layout(local_size_x_id = 0) in;
layout(push_constant) uniform Push { PatchesParams p; };
READ_BUFFER(uvec4, step_block, PATCHES_STEP);
READ_BUFFER(float, pixels, PATCHES_PIXELS);
WRITE_BUFFER(vec4, result, PATCHES_RESULT);

void main() {
  const uint row = gl_WorkGroupID.x;
  if (row >= step_block[0][ROWS_TOKENS]) return;
  const uvec4 token = step_block[STEP_HEADER_QUADS + row];
  const uint place = token.y - token.w - p.lead; // of the patch; rows before the first wrap round to far past the last
  const bool filled = token.x < step_block[0][ROWS_OUTPUTS] && place < p.count;
  const uint across = p.width / p.patch_width;
  const uint from = token.x * p.pixels_stride + place / across * p.patch_height * p.width +
                    place % across * p.patch_width;

  const uint area = p.patch_height * p.patch_width, plane = p.height * p.width;
  const uint to = row * (p.out_stride >> 2), padded_quads = ((p.columns + 31u) >> 5) * 8u;
  for (uint i = gl_GlobalInvocationID.y * gl_WorkGroupSize.x + gl_LocalInvocationID.x; i < padded_quads;
       i += gl_NumWorkGroups.y * gl_WorkGroupSize.x) {
    vec4 v = vec4(0.0);
    for (uint j = 0; j < 4u; ++j) {
      const uint column = 4u * i + j;
      if (!filled || column >= p.columns) break;
      const uint within = column % area;
      v[j] = pixels[from + column / area * plane + within / p.patch_width * p.width + within % p.patch_width];
    }
    result[to + i] = v;
  }
}
