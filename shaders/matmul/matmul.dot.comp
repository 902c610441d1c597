#version 460
// Products in integers: rows of x in 8 bits (quantize_rows.comp) times the weights' codes, four at a time. The sum of a
// block is exact. The rounding error of x is at most half of 1/127 of the largest number in the block.
// variant: {linear_weight_type}
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_integer_dot_product : require
#include "matmul/subgroup_slices.glsl"
#include "matmul/quantize_rows.params.h"
#include "matmul/round_block.glsl"

layout(constant_id = MATMUL_OWN_BLOCKS_ID) const uint OWN_BLOCKS = 0; // of a row, to be rounded here; 0: MATMUL_CODES has them
READ_BUFFER(uvec4, x_codes, MATMUL_CODES);
shared uvec4 own_codes[OWN_BLOCKS > 0u ? ROWS * OWN_BLOCKS * CODES_QUADS : 1u];

// Rounds the workgroup's rows of x. Lanes past the last block repeat it.
void round_rows() {
  [[unroll]] for (uint m = 0; m < ROWS; ++m) {
    const uint row_quad = x_row(m) * (p.x_stride >> 2);
    for (uint first = 0; first < OWN_BLOCKS; first += SLICES) {
      const uint block = min(first + own_slice(), OWN_BLOCKS - 1u);
      const RoundedQuad own = round_quad(x[row_quad + block * 8u + LANE]);
      const uint at = (m * OWN_BLOCKS + block) * CODES_QUADS;
      // Whole quads: lanes that write parts of one may undo each other's writes on some drivers.
      const uvec4 codes = uvec4(own.codes, subgroupShuffleXor(own.codes, 1u), subgroupShuffleXor(own.codes, 2u),
                                subgroupShuffleXor(own.codes, 3u));
      const float other_sum = subgroupShuffleXor(own.half_sum, 4u);
      if (LANE % 4u == 0u) own_codes[at + LANE / 4u] = codes;
      if (LANE == 0u) own_codes[at + 2u] = uvec4(floatBitsToUint(vec3(own.scale, own.half_sum, other_sum)), 0u);
    }
  }
  barrier();
}

uvec4 code_quad(uint at) { return OWN_BLOCKS > 0u ? own_codes[at] : x_codes[at]; }

// Bytes hold signed codes in their upper bits; only where decode_weight sees them so do the scales allow for it.
#ifdef NUMBERS
const float BYTE_UNIT = 1.0;
#else
const float BYTE_UNIT = (SIGNED == 1 ? 1.0 / float(1 << (8 - BITS)) : 1.0) / CODE_UNIT;
#endif

// Adds block kb, which was loaded, to the sums, and loads block `next`.
void add_block(uint kb, uint next, uint row_block[ROWS], inout float sum[ROWS][TILES]) {
  int codes[TILES][8];
  float scale[TILES][SCALE_COUNT], minimum[TILES][SCALE_COUNT];
  [[unroll]] for (uint t = 0; t < TILES; ++t) {
    unpack_scales(scales_ahead[t], kb, scale[t], minimum[t]);
    [[unroll]] for (uint j = 0; j < 8; ++j) codes[t][j] = int(quad_codes(ahead[t], j));
  }
  load_ahead(next);
  [[unroll]] for (uint m = 0; m < ROWS; ++m) {
    const uint at = (row_block[m] + kb) * CODES_QUADS;
    const ivec4 own[2] = {ivec4(code_quad(at)), ivec4(code_quad(at + 1u))};
    const vec4 scale_sums = uintBitsToFloat(code_quad(at + 2u));
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
    row_block[m] = OWN_BLOCKS > 0u ? m * OWN_BLOCKS : x_row(m) * p.blocks;
    [[unroll]] for (uint t = 0; t < TILES; ++t) sum[m][t] = 0.0;
  }
  const uint last = p.blocks - 1u;
  load_ahead(min(own_slice(), last));
  if (OWN_BLOCKS > 0u) round_rows();
  for (uint kb = own_slice(); kb < p.blocks; kb += SLICES) add_block(kb, min(kb + SLICES, last), row_block, sum);
  store_sums(sum);
}
