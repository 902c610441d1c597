#version 460
// Products in integers: rows of x in 8 bits (quantize_rows.comp) times the weights' codes, four at a time. The sum of a
// block is exact. The rounding error of x is at most half of 1/127 of the largest number in the block.
// variant: {linear_weight_type}
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_integer_dot_product : require
#include "matmul/subgroup_slices.glsl"
#include "matmul/quantize_rows.params.h"

READ_BUFFER(uvec4, x_codes, MATMUL_CODES);

// Bytes hold signed codes in their upper bits; only where decode_weight sees them so do the scales allow for it.
const float BYTE_UNIT = (SIGNED == 1 ? 1.0 / float(1 << (8 - BITS)) : 1.0) / CODE_UNIT;

// Adds block kb to the sums.
void add_block(uint kb, uint row_block[ROWS], inout float sum[ROWS][TILES]) {
  int codes[TILES][8];
  float scale[TILES][SCALE_COUNT], minimum[TILES][SCALE_COUNT];
  [[unroll]] for (uint t = 0; t < TILES; ++t) {
    uint w[PAYLOAD];
    load_block(tile0 + t, kb, LANE, w);
    load_scales(tile0 + t, kb, LANE, scale[t], minimum[t]);
    [[unroll]] for (uint j = 0; j < 8; ++j) codes[t][j] = int(quad_codes(w, j));
  }
  [[unroll]] for (uint m = 0; m < ROWS; ++m) {
    const uint at = (row_block[m] + kb) * CODES_QUADS;
    const ivec4 own[2] = {ivec4(x_codes[at]), ivec4(x_codes[at + 1u])};
    const vec4 scale_sums = uintBitsToFloat(x_codes[at + 2u]);
    [[unroll]] for (uint t = 0; t < TILES; ++t) {
      [[unroll]] for (uint scale_index = 0; scale_index < SCALE_COUNT; ++scale_index) {
        int products = 0;
        [[unroll]] for (uint j = scale_index * (8 / SCALE_COUNT); j < (scale_index + 1) * (8 / SCALE_COUNT); ++j) {
          products += dotPacked4x8EXT(codes[t][j], own[j / 4][j % 4]);
        }
        sum[m][t] = fma(float(products) * (scale_sums.x * BYTE_UNIT), scale[t][scale_index], sum[m][t]);
#ifdef MINIMUMS
        const float x_sum = SCALE_COUNT == 1 ? scale_sums.y + scale_sums.z : scale_sums[1 + scale_index];
        sum[m][t] = fma(x_sum, -minimum[t][scale_index], sum[m][t]);
#endif
      }
    }
  }
}

void main() {
  if (!find_work()) return;
  uint row_block[ROWS];
  float sum[ROWS][TILES];
  [[unroll]] for (uint m = 0; m < ROWS; ++m) {
    row_block[m] = x_row(m) * p.blocks;
    [[unroll]] for (uint t = 0; t < TILES; ++t) sum[m][t] = 0.0;
  }
  for (uint kb = own_slice(); kb < p.blocks; kb += SLICES) add_block(kb, row_block, sum);
  store_sums(sum);
}
