#version 460
// Matrix x vector and matrix x matrix for CPU drivers: a workgroup is one 8-lane vector, a lane is a weight row, and
// sums stay in registers. No shared memory, no barriers, no reductions. The sum over k runs in the same order
// whatever ROWS is, so a token's result does not depend on its neighbours.
// variant: f32 WEIGHT_TYPE=0
// variant: f16 WEIGHT_TYPE=1
// variant: bf16 WEIGHT_TYPE=2
// variant: q8_0 WEIGHT_TYPE=3
// variant: q4_0 WEIGHT_TYPE=4
// variant: q4_1 WEIGHT_TYPE=5
// variant: q5_0 WEIGHT_TYPE=6
// variant: q5_1 WEIGHT_TYPE=7
// variant: q2_k WEIGHT_TYPE=8
// variant: q3_k WEIGHT_TYPE=9
// variant: q4_k WEIGHT_TYPE=10
// variant: q5_k WEIGHT_TYPE=11
// variant: q6_k WEIGHT_TYPE=12
// variant: iq4_nl WEIGHT_TYPE=13
// variant: iq4_xs WEIGHT_TYPE=14
// variant: mxfp4 WEIGHT_TYPE=15
#extension GL_GOOGLE_include_directive : require
#include "common/types.glsl"
#include "common/lane8.glsl"
#include "common/weight.glsl"
#include "matmul/matmul.params.h"

layout(local_size_x_id = 0) in;
layout(constant_id = 1) const uint ROWS = 1;
layout(constant_id = 2) const uint TILES = 4;
layout(constant_id = 3) const uint LOAD = LOAD_LANE;
layout(constant_id = 4) const uint EPILOGUE = 0;
layout(constant_id = 5) const uint ACTIVATION = 0;
layout(constant_id = 6) const uint ROUTED = 0;
layout(constant_id = 7) const uint ROW_BLOCKS = 0;
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

// Tiles that share what is loaded of x. With many rows to a tile, each multiplication takes its number of x straight from
// memory; one that several tiles share would have to pass through a register, or worse through the stack.
const uint ABREAST = ROWS < 8 ? TILES : 1;

// Blocks of 32 columns as a uniform load sees them: a tile's eight rows, and a row of x. One index to a block, and
// constants within it, leave the driver an address to add up for each block instead of each load.
struct TileBlock {
  uvec4 d[PAYLOAD * 2];
};
struct RowBlock {
  vec4 d[8];
};
layout(buffer_reference, std430, buffer_reference_align = 16) readonly buffer TileBlocks { TileBlock block[]; };
layout(buffer_reference, std430, buffer_reference_align = 16) readonly buffer RowBlocks { RowBlock block[]; };

void load_block(uint block, out uint w[PAYLOAD]) {
  if (LOAD == LOAD_UNIFORM) {
    [[unroll]] for (uint c = 0; c < PAYLOAD; ++c) {
      w[c] = lane_select(TileBlocks(p.weights).block[block].d[2u * c], TileBlocks(p.weights).block[block].d[2u * c + 1u]);
    }
  } else {
    const uint at = block * (PAYLOAD * 2);
    [[unroll]] for (uint c = 0; c < PAYLOAD / 4; ++c) {
      const uvec4 quad = weights[at + c * 8u + LANE];
      w[4 * c] = quad.x;
      w[4 * c + 1] = quad.y;
      w[4 * c + 2] = quad.z;
      w[4 * c + 3] = quad.w;
    }
    [[unroll]] for (uint c = PAYLOAD / 4 * 4; c < PAYLOAD; ++c) {
      w[c] = weight_dwords[at * 4u + PAYLOAD / 4 * 32u + LANE * (PAYLOAD % 4) + c % 4u];
    }
  }
}

#ifdef SCALED
// One dword of each row's scales.
uint load_scale(uint tile, uint word) {
  const uint at = (tile * scale_dwords(p.blocks) + word) * 8u;
  if (LOAD == LOAD_UNIFORM) {
    return lane_select(AddressU32x4(p.scales).d[at >> 2], AddressU32x4(p.scales).d[(at >> 2) + 1u]);
  }
  return scales[at + LANE];
}
#endif

// Where block `block` of x is. Rows at constant distances from it need no registers of their own.
uvec2 x_address(uint block) {
  const uint bytes = block * 128u;
  const uint low = p.x.x + bytes;
  return uvec2(low, p.x.y + (low < bytes ? 1u : 0u));
}

// Columns 4j to 4j + 3 of a block of x: `block` counts from `at`, and the lanes hold a quad each in `own`.
vec4 x_quad(uvec2 at, uint block, vec4 own, uint j) {
  return LOAD == LOAD_UNIFORM ? RowBlocks(at).block[block].d[j] : subgroupBroadcast(own, j);
}

// Adds block kb to the sums.
void add_block(uint kb, uint first_tile, uint first_row, uint row_block[ROWS], float scale[ABREAST][PARTS],
               float minimum[ABREAST][PARTS], inout float sum[ROWS][ABREAST]) {
  uint w[ABREAST][PAYLOAD];
  [[unroll]] for (uint t = 0; t < ABREAST; ++t) load_block((first_tile + t) * p.blocks + kb, w[t]);

  const uvec2 at = x_address(first_row + kb);
  vec4 own[ROWS];
  if (LOAD == LOAD_LANE) {
    [[unroll]] for (uint m = 0; m < ROWS; ++m) own[m] = x[(first_row + row_block[m] + kb) * 8u + LANE];
  }
#ifdef MINIMUMS
  // Every weight is finished before it is multiplied, which needs half the registers of two sums to a result and the
  // sums of x besides.
  [[unroll]] for (uint j = 0; j < 8; ++j) {
    vec4 xv[ROWS];
    [[unroll]] for (uint m = 0; m < ROWS; ++m) xv[m] = x_quad(at, row_block[m], own[m], j);
    const uint part = j / (8 / PARTS);
    [[unroll]] for (uint i = 0; i < 4; ++i) {
      float weight[ABREAST];
      [[unroll]] for (uint t = 0; t < ABREAST; ++t) {
        weight[t] = fma(decode_weight(w[t], 4 * j + i), scale[t][part], -minimum[t][part]);
      }
      [[unroll]] for (uint m = 0; m < ROWS; ++m) {
        [[unroll]] for (uint t = 0; t < ABREAST; ++t) sum[m][t] = fma(weight[t], xv[m][i], sum[m][t]);
      }
    }
  }
#else
  float products[ROWS][ABREAST];
  [[unroll]] for (uint j = 0; j < 8; ++j) {
    const uint part = j / (8 / PARTS);
    if (j % (8 / PARTS) == 0) {
      [[unroll]] for (uint m = 0; m < ROWS; ++m) [[unroll]] for (uint t = 0; t < ABREAST; ++t) products[m][t] = 0.0;
    }
    vec4 xv[ROWS];
    [[unroll]] for (uint m = 0; m < ROWS; ++m) xv[m] = x_quad(at, row_block[m], own[m], j);
    [[unroll]] for (uint i = 0; i < 4; ++i) {
      float decoded[ABREAST];
      [[unroll]] for (uint t = 0; t < ABREAST; ++t) decoded[t] = decode_weight(w[t], 4 * j + i);
      [[unroll]] for (uint m = 0; m < ROWS; ++m) {
        [[unroll]] for (uint t = 0; t < ABREAST; ++t) products[m][t] = fma(decoded[t], xv[m][i], products[m][t]);
      }
    }
    if (j % (8 / PARTS) == 8 / PARTS - 1) {
      [[unroll]] for (uint m = 0; m < ROWS; ++m) {
        [[unroll]] for (uint t = 0; t < ABREAST; ++t) sum[m][t] = fma(products[m][t], scale[t][part], sum[m][t]);
      }
    }
  }
#endif
}

// The sums of some tiles. Scales are loaded for each block, though neighbours share a dword of them: a loop within a loop
// costs CPU drivers more.
void add_blocks(uint first_tile, uint first_row, uint row_block[ROWS], out float sum[ROWS][ABREAST]) {
  float scale[ABREAST][PARTS], minimum[ABREAST][PARTS];
  [[unroll]] for (uint t = 0; t < ABREAST; ++t) {
    scale[t][0] = 1.0;
    [[unroll]] for (uint m = 0; m < ROWS; ++m) sum[m][t] = 0.0;
  }
  [[dont_unroll]] for (uint kb = 0; kb < p.blocks; ++kb) {
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
