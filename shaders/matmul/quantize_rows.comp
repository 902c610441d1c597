#version 460
// Eight neighbouring lanes of a subgroup take a block, four columns each.
// variant: -
#extension GL_GOOGLE_include_directive : require
#include "common/subgroup.glsl"
#include "common/types.glsl"
#include "matmul/quantize_rows.params.h"

layout(local_size_x_id = 0) in;
layout(constant_id = QUANTIZE_SUBGROUP_ID) const uint SUBGROUP = 32;
layout(push_constant) uniform Push { QuantizeRowsParams p; };
READ_BUFFER(uvec4, step_block, QUANTIZE_STEP);
READ_BUFFER(vec4, x, QUANTIZE_X);
WRITE_BUFFER(uint, codes, QUANTIZE_CODES);

#include "matmul/round_block.glsl"

void main() {
  const uint slice = SUBGROUP_NUMBER * (SUBGROUP / 8) + SUBGROUP_LANE / 8u;
  const uint block = gl_WorkGroupID.x * (gl_WorkGroupSize.x / 8) + slice;
  const uint row = gl_WorkGroupID.y, lane = SUBGROUP_LANE % 8u;
  if (row >= step_block[0][p.rows_kind] * p.rows_each || block >= p.blocks) return;

  const RoundedQuad own = round_quad(x[row * (p.x_stride >> 2) + block * 8u + lane]);
  const uint at = (row * p.blocks + block) * (CODES_QUADS * 4);
  codes[at + lane] = own.codes;
  if (lane == 0u) codes[at + 8u] = floatBitsToUint(own.scale);
  if (lane % 4u == 0u) codes[at + 9u + lane / 4u] = floatBitsToUint(own.half_sum);
}
