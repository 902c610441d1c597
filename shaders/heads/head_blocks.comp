#version 460
// An invocation takes a block.
// variant: -
#extension GL_GOOGLE_include_directive : require
#include "common/types.glsl"
#include "matmul/matmul.params.h"
#include "heads/head_blocks.params.h"

layout(local_size_x_id = 0) in;
layout(push_constant) uniform Push { HeadBlocksParams p; };
READ_BUFFER(uvec4, step_block, HEAD_BLOCKS_STEP);
WRITE_BUFFER(uint, blocks, HEAD_BLOCKS_RESULT);

void main() {
  const uint rows = step_block[0][p.rows_kind] * p.each;
  const uint each = (rows + p.block_slots - 1u) / p.block_slots, count = each * p.matrices; // blocks of a matrix, and of all
  const uint own = gl_GlobalInvocationID.x;
  if (own == 0u) blocks[0] = count;
  if (own >= count) return;
  const uint matrix = own / each, at = 1u + own * (1u + p.block_slots);
  blocks[at] = matrix;
  for (uint i = 0; i < p.block_slots; ++i) {
    const uint row = own % each * p.block_slots + i;
    blocks[at + 1u + i] = row < rows ? row * p.matrices + matrix : MATMUL_NOTHING;
  }
}
