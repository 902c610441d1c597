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

void main() {
  const uint slice = SUBGROUP_NUMBER * (SUBGROUP / 8) + SUBGROUP_LANE / 8u;
  const uint block = gl_WorkGroupID.x * (gl_WorkGroupSize.x / 8) + slice;
  const uint row = gl_WorkGroupID.y, lane = SUBGROUP_LANE % 8u;
  if (row >= step_block[0][p.rows_kind] || block >= p.blocks) return;

  const vec4 own = x[row * (p.x_stride >> 2) + block * 8u + lane];
  float largest = max(max(abs(own.x), abs(own.y)), max(abs(own.z), abs(own.w)));
  largest = max(largest, subgroupShuffleXor(largest, 1u));
  largest = max(largest, subgroupShuffleXor(largest, 2u));
  largest = max(largest, subgroupShuffleXor(largest, 4u));
  const float scale = largest / 127.0;
  const ivec4 code = ivec4(roundEven(own * (largest > 0.0 ? 127.0 / largest : 0.0)));
  int sum = (code.x + code.y) + (code.z + code.w);
  sum += subgroupShuffleXor(sum, 1u);
  sum += subgroupShuffleXor(sum, 2u);

  const uint at = (row * p.blocks + block) * (CODES_QUADS * 4);
  const ivec4 bytes = code & 255;
  codes[at + lane] = uint(bytes.x | bytes.y << 8 | bytes.z << 16 | bytes.w << 24);
  if (lane == 0u) codes[at + 8u] = floatBitsToUint(scale);
  if (lane % 4u == 0u) codes[at + 9u + lane / 4u] = floatBitsToUint(scale * float(sum));
}
