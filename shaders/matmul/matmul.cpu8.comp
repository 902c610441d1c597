#version 460
// Matrix x vector and matrix x matrix for CPU drivers: a workgroup is one 8-lane vector, a lane is a weight row, and
// sums stay in registers. No shared memory, no barriers, no reductions. The sum over k runs in the same order
// whatever ROWS is, so a token's result does not depend on its neighbours.
// variant: {weight_type}
// variant: f16_halves needs=half8 WEIGHT_TYPE WEIGHT_TYPE_F16 HALVES
#extension GL_GOOGLE_include_directive : require
#include "common/types.glsl"
#include "common/cpu8.glsl"
#include "common/weight.glsl"
#include "adapter/numbers.h"
#include "matmul/matmul.params.h"

layout(local_size_x_id = 0) in;
layout(constant_id = MATMUL_ROWS_ID) const uint ROWS = 1;
layout(constant_id = MATMUL_TILES_ID) const uint TILES = 4;
layout(constant_id = MATMUL_LOAD_ID) const uint LOAD = LOAD_LANE;
layout(constant_id = MATMUL_EPILOGUE_ID) const uint EPILOGUE = 0;
layout(constant_id = MATMUL_ACTIVATION_ID) const uint ACTIVATION = 0;
layout(constant_id = MATMUL_ROUTED_ID) const uint ROUTED = 0;
layout(constant_id = MATMUL_ROW_BLOCKS_ID) const uint ROW_BLOCKS = 0;
layout(constant_id = MATMUL_PASS_BLOCKS_ID) const uint PASS_BLOCKS = 1;
layout(constant_id = MATMUL_ADAPTER_TILE_ID) const uint ADAPTER_TILE = 0;
layout(constant_id = MATMUL_ADAPTER_NUMBERS_ID) const uint ADAPTER_NUMBERS = ADAPTER_F32;
layout(constant_id = MATMUL_ADAPTER_PLACE_ID) const uint ADAPTER_PLACE = 0;
layout(constant_id = MATMUL_ADAPTER_STRIDE_ID) const uint ADAPTER_STRIDE = 0;
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
READ_BUFFER(vec4, adapter_h, MATMUL_ADAPTER_H);
READ_BUFFER(uint, adapter_up, MATMUL_ADAPTER_UP);

#include "matmul/epilogue.glsl"
#include "matmul/work.glsl"

#define SUMS_WEIGHTS p.weights
#define SUMS_SCALES p.scales
#define SUMS_X p.x
#define SUMS_BLOCKS p.blocks
#include "matmul/cpu8_sums.glsl"
#include "matmul/adapter_sum.glsl"

void main() {
  if (!find_work()) return;
  const uint first_row = gl_WorkGroupID.x * ROWS * ROW_BLOCKS;
  uint row_block[ROWS];
  [[unroll]] for (uint m = 0; m < ROWS; ++m) {
    row_block[m] = ROW_BLOCKS != 0u ? m * ROW_BLOCKS : x_row(m) * (p.x_stride >> 5);
  }

  float sum[ROWS][TILES];
  [[unroll]] for (uint t0 = 0; t0 < TILES; t0 += ABREAST) {
    float abreast[ROWS][ABREAST];
    add_blocks(tile0 + t0, first_row, row_block, abreast);
    [[unroll]] for (uint m = 0; m < ROWS; ++m) {
      [[unroll]] for (uint t = 0; t < ABREAST; ++t) sum[m][t0 + t] = abreast[m][t];
    }
  }

  if (ADAPTER_TILE != 0u) { // before the row's scale: it is of the adapter's x, too
    [[unroll]] for (uint m = 0; m < ROWS; ++m) {
      [[unroll]] for (uint t = 0; t < TILES; ++t) sum[m][t] += adapter_sum(x_row(m), column_tile0 + t);
    }
  }

  const uint step = (EPILOGUE & EPILOGUE_GATED) != 0u ? 2u : 1u;
  [[unroll]] for (uint m = 0; m < ROWS; ++m) {
    const uint row = result_row(m);
    if (row != MATMUL_NOTHING) {
      const float scale = row_scale(x_row(m));
      [[unroll]] for (uint t = 0; t < TILES; t += step) {
        const float second = step == 2u ? sum[m][min(t + 1u, TILES - 1u)] : 0.0;
        const float square = store_lane(row, column_tile0 + t, LANE, scale, sum[m][t], second);
        if ((EPILOGUE & EPILOGUE_NEXT_NORM) != 0u) store_squares(row, column_tile0 + t, lane_sum(square));
      }
    }
  }
}
