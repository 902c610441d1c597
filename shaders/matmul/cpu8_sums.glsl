// A lane's sums over k: ROWS rows of x times TILES tiles of a weight, in registers. The order of the additions does not
// depend on ROWS. The including file has the buffers weights, weight_dwords, scales and x, and defines
//   ROWS, TILES, LOAD: as in matmul/matmul.params.h
//   SUMS_WEIGHTS, SUMS_SCALES, SUMS_X: the addresses of the first three, for LOAD_UNIFORM
//   SUMS_BLOCKS: blocks of 32 along k
//   PASS_BLOCKS: as many of them are unrolled in the loop over k; it divides SUMS_BLOCKS
//   HALVES: set for a weight whose tiles have the halves of a column side by side; LOAD is LOAD_UNIFORM then
#include "common/texels.h"

TEXELS(weight_texels, MATMUL_WEIGHT_TEXELS);
TEXELS(x_texels, MATMUL_X_TEXELS);
TEXELS(weight_dword_texels, MATMUL_WEIGHT_DWORD_TEXELS);
TEXELS(scale_texels, MATMUL_SCALE_TEXELS);

// Tiles that share each load of x. With many rows each multiplication reads its number of x from memory: if several tiles
// shared it, it would need a register, or the stack.
const uint ABREAST = ROWS < 8 ? TILES : 1;

// Blocks of 32 columns as a uniform load sees them: a tile's eight rows, and a row of x. With one
// index for a block and constants within it, the driver computes an address once for a block, not for each load.
struct TileBlock {
  uvec4 d[PAYLOAD * 2];
};
struct RowBlock {
  vec4 d[8];
};
layout(buffer_reference, std430, buffer_reference_align = 16) readonly buffer TileBlocks { TileBlock block[]; };
layout(buffer_reference, std430, buffer_reference_align = 16) readonly buffer RowBlocks { RowBlock block[]; };

#ifdef HALVES
struct HalvesBlock {
  f16vec4 d[64];
};
layout(buffer_reference, std430, buffer_reference_align = 16) readonly buffer HalvesBlocks { HalvesBlock block[]; };

// Column i of a block. The driver makes one instruction of it, which loads eight halves and converts them.
float load_half(uint block, uint i) {
  return float(lane_select(HalvesBlocks(SUMS_WEIGHTS).block[block].d[2u * i], HalvesBlocks(SUMS_WEIGHTS).block[block].d[2u * i + 1u]));
}
#endif

// Loads what columns 4j to 4j + 3 of a block are the first ones to need. Each dword is loaded where it is used: compilers
// keep the order of loads, and those of a whole block do not fit into the registers.
void load_weights(uint block, uint j, inout uint w[PAYLOAD]) {
  if (LOAD == LOAD_UNIFORM) {
    const bool in_order = PAYLOAD % 8 == 0; // as many dwords for each four columns
    if (!in_order && j > 0u) return;
    const uint count = in_order ? PAYLOAD / 8 : PAYLOAD;
    [[unroll]] for (uint i = 0; i < count; ++i) {
      const uint c = j * count + i;
      w[c] = lane_select(TileBlocks(SUMS_WEIGHTS).block[block].d[2u * c], TileBlocks(SUMS_WEIGHTS).block[block].d[2u * c + 1u]);
    }
  } else if (j == 0u) {
    const uint at = block * (PAYLOAD * 2);
    [[unroll]] for (uint c = 0; c < PAYLOAD / 4; ++c) {
      const uint quad_at = at + c * 8u + LANE;
      const uvec4 quad = LOAD == LOAD_TEXEL ? texelFetch(weight_texels, int(quad_at)) : weights[quad_at];
      w[4 * c] = quad.x;
      w[4 * c + 1] = quad.y;
      w[4 * c + 2] = quad.z;
      w[4 * c + 3] = quad.w;
    }
    [[unroll]] for (uint c = PAYLOAD / 4 * 4; c < PAYLOAD; ++c) {
      const uint dword_at = at * 4u + PAYLOAD / 4 * 32u + LANE * (PAYLOAD % 4) + c % 4u;
      w[c] = LOAD == LOAD_TEXEL ? texelFetch(weight_dword_texels, int(dword_at)).x : weight_dwords[dword_at];
    }
  }
}

#ifdef SCALED
// One dword of each row's scales.
uint load_scale(uint tile, uint word) {
  const uint at = (tile * scale_dwords(SUMS_BLOCKS) + word) * 8u;
  if (LOAD == LOAD_UNIFORM) {
    return lane_select(AddressU32x4(SUMS_SCALES).d[at >> 2], AddressU32x4(SUMS_SCALES).d[(at >> 2) + 1u]);
  }
  return LOAD == LOAD_TEXEL ? texelFetch(scale_texels, int(at + LANE)).x : scales[at + LANE];
}
#endif

// The address of block `block` of x. Rows at constant distances from it need no address registers.
uvec2 x_address(uint block) { return offset_address(SUMS_X, block * 128u); }

// Column 4j + i of a block of x: `block` counts from `at`, and the lanes hold a quad each in `own`.
float x_number(uvec2 at, uint block, vec4 own, uint j, uint i) {
  return LOAD == LOAD_UNIFORM ? RowBlocks(at).block[block].d[j][i] : FROM_LANE(own[i], j);
}

// Adds block kb to the sums.
void add_block(uint kb, uint first_tile, uint first_row, uint row_block[ROWS], float scale[ABREAST][SCALE_COUNT],
               float minimum[ABREAST][SCALE_COUNT], inout float sum[ROWS][ABREAST]) {
  uint w[ABREAST][PAYLOAD];
  const uvec2 at = x_address(first_row + kb);
  vec4 own[ROWS];
  if (LOAD != LOAD_UNIFORM) {
    [[unroll]] for (uint m = 0; m < ROWS; ++m) {
      const uint quad_at = (first_row + row_block[m] + kb) * 8u + LANE;
      own[m] = LOAD == LOAD_TEXEL ? uintBitsToFloat(texelFetch(x_texels, int(quad_at))) : x[quad_at];
    }
  }
#ifdef MINIMUMS
  // Scale and minimum are applied to each weight before it is multiplied. Two sums for each result and the sums of x
  // would need twice the registers.
  [[unroll]] for (uint j = 0; j < 8; ++j) {
    [[unroll]] for (uint t = 0; t < ABREAST; ++t) load_weights((first_tile + t) * SUMS_BLOCKS + kb, j, w[t]);
    const uint scale_index = j / (8 / SCALE_COUNT);
    [[unroll]] for (uint i = 0; i < 4; ++i) {
      float weight[ABREAST];
      [[unroll]] for (uint t = 0; t < ABREAST; ++t) {
        weight[t] = fma(decode_weight(w[t], 4 * j + i), scale[t][scale_index], -minimum[t][scale_index]);
      }
      [[unroll]] for (uint m = 0; m < ROWS; ++m) {
        const float number = x_number(at, row_block[m], own[m], j, i);
        [[unroll]] for (uint t = 0; t < ABREAST; ++t) sum[m][t] = fma(weight[t], number, sum[m][t]);
      }
    }
  }
#else
  float products[ROWS][ABREAST];
  [[unroll]] for (uint j = 0; j < 8; ++j) {
#ifndef HALVES
    [[unroll]] for (uint t = 0; t < ABREAST; ++t) load_weights((first_tile + t) * SUMS_BLOCKS + kb, j, w[t]);
#endif
    const uint scale_index = j / (8 / SCALE_COUNT);
    if (j % (8 / SCALE_COUNT) == 0) {
      [[unroll]] for (uint m = 0; m < ROWS; ++m) [[unroll]] for (uint t = 0; t < ABREAST; ++t) products[m][t] = 0.0;
    }
    [[unroll]] for (uint i = 0; i < 4; ++i) {
      float decoded[ABREAST];
#ifdef HALVES
      [[unroll]] for (uint t = 0; t < ABREAST; ++t) decoded[t] = load_half((first_tile + t) * SUMS_BLOCKS + kb, 4 * j + i);
#else
      [[unroll]] for (uint t = 0; t < ABREAST; ++t) decoded[t] = decode_weight(w[t], 4 * j + i);
#endif
      [[unroll]] for (uint m = 0; m < ROWS; ++m) {
        const float number = x_number(at, row_block[m], own[m], j, i);
        [[unroll]] for (uint t = 0; t < ABREAST; ++t) products[m][t] = fma(decoded[t], number, products[m][t]);
      }
    }
    if (j % (8 / SCALE_COUNT) == 8 / SCALE_COUNT - 1) {
      [[unroll]] for (uint m = 0; m < ROWS; ++m) {
        [[unroll]] for (uint t = 0; t < ABREAST; ++t) sum[m][t] = fma(products[m][t], scale[t][scale_index], sum[m][t]);
      }
    }
  }
#endif
}

// The sums of some tiles. Scales are loaded for each block, although neighbours share a dword: a nested loop would cost CPU
// drivers more.
void add_blocks(uint first_tile, uint first_row, uint row_block[ROWS], out float sum[ROWS][ABREAST]) {
  float scale[ABREAST][SCALE_COUNT], minimum[ABREAST][SCALE_COUNT];
  [[unroll]] for (uint t = 0; t < ABREAST; ++t) {
    scale[t][0] = 1.0;
    [[unroll]] for (uint m = 0; m < ROWS; ++m) sum[m][t] = 0.0;
  }
  [[dont_unroll]] for (uint first = 0; first < SUMS_BLOCKS; first += PASS_BLOCKS) {
    [[unroll]] for (uint of_pass = 0; of_pass < PASS_BLOCKS; ++of_pass) {
      const uint kb = first + of_pass;
#ifdef SCALED
      [[unroll]] for (uint t = 0; t < ABREAST; ++t) {
#ifdef HEAD
        const uint head = load_scale(first_tile + t, head_word(kb));
#else
        const uint head = 0u;
#endif
        const uint word = load_scale(first_tile + t, scale_word(kb));
        block_scales(head, word, kb % BLOCKS_OF_WORD, scale[t], minimum[t]);
      }
#endif
      add_block(kb, first_tile, first_row, row_block, scale, minimum, sum);
    }
  }
}
