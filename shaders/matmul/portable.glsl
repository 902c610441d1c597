// What the kernels of products for any device share: their constants and buffers, and how an invocation that takes one
// row of a tile loads it.
#include "common/types.glsl"
#include "common/weight.glsl"
#include "matmul/matmul.params.h"

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint ROWS = 1;
layout(constant_id = 2) const uint TILES = 1;
layout(constant_id = 4) const uint EPILOGUE = 0;
layout(constant_id = 5) const uint ACTIVATION = 0;
layout(constant_id = 6) const uint ROUTED = 0;
layout(push_constant) uniform Push { MatmulParams p; };
READ_BUFFER(uvec4, step_block, MATMUL_STEP);
READ_BUFFER(uvec4, weights, MATMUL_WEIGHTS);
READ_BUFFER(uint, weight_dwords, MATMUL_WEIGHTS); // the same, for what is left of a block after its quads
READ_BUFFER(uint, scales, MATMUL_SCALES);
READ_BUFFER(vec4, x, MATMUL_X);
READ_BUFFER(float, bias, MATMUL_BIAS);
READ_BUFFER(float, residual, MATMUL_RESIDUAL);
WRITE_BUFFER(float, result, MATMUL_RESULT);
READ_BUFFER(uint, expert_blocks, MATMUL_EXPERT_BLOCKS);

#include "matmul/epilogue.glsl"
#include "matmul/work.glsl"

// Tiles that the epilogue takes at once.
const uint PAIR = (EPILOGUE & EPILOGUE_GATED) != 0u ? 2u : 1u;

// The payload of block kb of a tile's row.
void load_block(uint tile, uint kb, uint row, out uint w[PAYLOAD]) {
  const uint at = (tile * p.blocks + kb) * (PAYLOAD * 2);
  [[unroll]] for (uint c = 0; c < PAYLOAD / 4; ++c) {
    const uvec4 quad = weights[at + c * 8u + row];
    w[4 * c] = quad.x;
    w[4 * c + 1] = quad.y;
    w[4 * c + 2] = quad.z;
    w[4 * c + 3] = quad.w;
  }
  [[unroll]] for (uint c = PAYLOAD / 4 * 4; c < PAYLOAD; ++c) {
    w[c] = weight_dwords[at * 4u + PAYLOAD / 4 * 32u + row * (PAYLOAD % 4) + c % 4u];
  }
}

// Its scales and minimums.
void load_scales(uint tile, uint kb, uint row, out float scale[PARTS], out float minimum[PARTS]) {
  scale[0] = 1.0;
#ifdef SCALED
  const uint first = tile * scale_dwords(p.blocks);
  block_scales(scales[(first + head_word(kb)) * 8u + row], scales[(first + scale_word(kb)) * 8u + row],
               kb % BLOCKS_OF_WORD, scale, minimum);
#endif
}
