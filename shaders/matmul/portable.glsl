// What the kernels of products for any device share: their constants and buffers.
#include "common/types.glsl"
#include "common/weight.glsl"
#include "matmul/matmul.params.h"

layout(local_size_x_id = 0) in;
layout(constant_id = MATMUL_ROWS_ID) const uint ROWS = 1;
layout(constant_id = MATMUL_TILES_ID) const uint TILES = 1;
layout(constant_id = MATMUL_EPILOGUE_ID) const uint EPILOGUE = 0;
layout(constant_id = MATMUL_ACTIVATION_ID) const uint ACTIVATION = 0;
layout(constant_id = MATMUL_ROUTED_ID) const uint ROUTED = 0;
layout(constant_id = MATMUL_LANE_BYTES_ID) const uint LANE_BYTES = 16;
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

#include "matmul/tile_row.glsl"
