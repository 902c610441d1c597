// Lets an attention kernel compute the queries, the key and the value of its own heads, for one row. The weight has the
// matrices of queries, keys and values one after the other.
#include "attention/attention.params.h"
#include "common/weight.glsl"
#include "matmul/matmul.params.h"

layout(constant_id = ATTENTION_EPILOGUE_ID) const uint EPILOGUE = 0;
layout(constant_id = ATTENTION_BLOCKS_ID) const uint BLOCKS_OF_X = 1;
layout(constant_id = ATTENTION_K_TILE_ID) const uint K_TILE = 0;
layout(constant_id = ATTENTION_V_TILE_ID) const uint V_TILE = 0;
layout(constant_id = ATTENTION_SCALE_COLUMNS_ID) const uint SCALE_COLUMNS = 1;
layout(constant_id = ATTENTION_SCALE_SUMS_ID) const uint SCALE_SUMS = 0;
layout(constant_id = ATTENTION_SCALE_EPS_ID) const uint SCALE_EPS = 0;
READ_BUFFER(uvec4, weights, ATTENTION_WEIGHTS);
READ_BUFFER(uint, weight_dwords, ATTENTION_WEIGHTS);
READ_BUFFER(uint, scales, ATTENTION_SCALES);
READ_BUFFER(vec4, x, ATTENTION_X);
READ_BUFFER(float, projection_bias, ATTENTION_PROJECTION_BIAS);
COHERENT_BUFFER(float, projected, ATTENTION_Q); // the whole row: queries, keys and values

const uint ROWS = 1;
const uint TILES = 4; // a head has a multiple of them
const uint PASS_BLOCKS = 1;
#define SUMS_WEIGHTS projection.weights
#define SUMS_SCALES projection.scales
#define SUMS_X projection.x
#define SUMS_BLOCKS BLOCKS_OF_X
#include "matmul/cpu8_sums.glsl"
#include "matmul/row_scale.glsl"

uint head_tile(uint head) {
  if (head < p.heads) return head * (HEAD_DIM / 8u);
  if (head < p.heads + p.kv_heads) return K_TILE + (head - p.heads) * (HEAD_DIM / 8u);
  return V_TILE + (head - p.heads - p.kv_heads) * (HEAD_DIM / 8u);
}

// The workgroup may read `projected` after a memory barrier.
void project() {
  const uint steps_of_head = HEAD_DIM / 8u / TILES;
  float scale = 1.0;
  if ((EPILOGUE & EPILOGUE_ROW_SCALE) != 0u) {
    scale = row_scale_of(SCALE_SUMS >> 2, SCALE_COLUMNS, uintBitsToFloat(SCALE_EPS));
  }
  const uint row_block[ROWS] = {0u};
  [[dont_unroll]] for (uint step = 0; step < LOCAL_HEADS * steps_of_head; ++step) {
    const uint tile = head_tile(global_head(step / steps_of_head)) + step % steps_of_head * TILES;
    float tile_sum[ROWS][ABREAST];
    add_blocks(tile, 0u, row_block, tile_sum);
    [[unroll]] for (uint t = 0; t < TILES; ++t) {
      const uint column = (tile + t) * 8u + LANE;
      float value = tile_sum[0][t];
      if ((EPILOGUE & EPILOGUE_ROW_SCALE) != 0u) value *= scale;
      if ((EPILOGUE & EPILOGUE_BIAS) != 0u) value += projection_bias[column];
      projected[column] = value;
    }
  }
}
