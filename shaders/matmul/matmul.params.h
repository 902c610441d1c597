// result[m, n] = epilogue(sum over k of x[m, k] * weight[n, k]); eight rows n of the weight are packed as a
// tile. In a routed product the weight holds a matrix for each expert, each row of x has slots_per_row slots,
// each slot an expert and a row of the result: result[slot, n] = sum over k of x[slot / slots_per_row, k] *
// expert's weight[n, k].
#ifndef PUMICE_MATMUL_PARAMS_H
#define PUMICE_MATMUL_PARAMS_H
#include "common/load.h"
#include "common/shared.h"

PUMICE_PARAMS_BEGIN

// Buffers.
CONSTANT MATMUL_STEP = 0;
CONSTANT MATMUL_WEIGHTS = 1;  // packed payload
CONSTANT MATMUL_SCALES = 2;   // packed scales
CONSTANT MATMUL_X = 3;        // [rows, x_stride]
CONSTANT MATMUL_BIAS = 4;     // [all tiles * 8], and as many weights of the norm after this product
CONSTANT MATMUL_RESIDUAL = 5; // [rows, residual_stride]
CONSTANT MATMUL_RESULT = 6;   // [rows, out_stride]
// Routed products only: the number of blocks, then for each block its expert and 1 << block_shift of the expert's
// slots, or fewer and MATMUL_NOTHING for each that is missing. It also stands for a missing block.
CONSTANT MATMUL_EXPERT_BLOCKS = 7;
CONSTANT MATMUL_NOTHING = 0xffffffffu;
// cpu8 only, with an adapter: what adapter_down.params.h has for products, a row for each of x, and the adapters' second
// matrices as matmul/adapter_sum.glsl has them.
CONSTANT MATMUL_ADAPTER_H = 9;
CONSTANT MATMUL_ADAPTER_UP = 10;
// Texels, for LOAD_TEXEL (common/texels.h).
CONSTANT MATMUL_WEIGHT_TEXELS = 0;
CONSTANT MATMUL_X_TEXELS = 1;
CONSTANT MATMUL_WEIGHT_DWORD_TEXELS = 2;
CONSTANT MATMUL_SCALE_TEXELS = 3;
CONSTANT MATMUL_CODES = 8;  // dot only: x as quantize_rows.params.h has it
CONSTANT MATMUL_HALVES = 8; // cm and add_parts only: x as halve_rows.params.h has it

// Specialisation constants, each with a number of its own. 0 is the workgroup's size.
CONSTANT MATMUL_ROWS_ID = 1;       // rows of x to a workgroup; routed: it divides a block's slots
CONSTANT MATMUL_TILES_ID = 2;      // tiles to a workgroup
CONSTANT MATMUL_LOAD_ID = 3;       // LOAD_*; cpu8 only
CONSTANT MATMUL_EPILOGUE_ID = 4;   // EPILOGUE_* bits
CONSTANT MATMUL_ACTIVATION_ID = 5; // ACTIVATION_*, for EPILOGUE_ACTIVATE and EPILOGUE_GATED
CONSTANT MATMUL_ROUTED_ID = 6;     // MATMUL_ROWS_*
CONSTANT MATMUL_SUBGROUP_ID = 7;   // invocations of a subgroup, at least 8; vector and dot only
CONSTANT MATMUL_CODES_ID = 8;      // CODES_* of common/codes.h, subgroup only
// dot only: blocks of 32 in a row of x, if a workgroup rounds them itself; otherwise 0.
CONSTANT MATMUL_OWN_BLOCKS_ID = 8;
// cm only.
CONSTANT MATMUL_M_ID = 8; // sizes of the matrices
CONSTANT MATMUL_N_ID = 9;
CONSTANT MATMUL_K_ID = 10;
CONSTANT MATMUL_SCOPE_ID = 11;       // MATRIX_OF_*: of a group
CONSTANT MATMUL_GROUP_ID = 12;       // invocations that multiply a matrix together
CONSTANT MATMUL_GROUPS_DOWN_ID = 13; // groups among which the rows are divided; the others divide the tiles
CONSTANT MATMUL_DEPTH_ID = 18;       // blocks of 32 columns in a pass
CONSTANT MATMUL_BUFFERS_ID = 19;     // 2: the next pass is staged while this one is multiplied
CONSTANT MATMUL_STAGED_CODES_ID = 20; // CODES_* of common/codes.h
CONSTANT MATMUL_SPLIT_ID = 21;        // 1: workgroups (z) take parts of k, and add_parts.comp does the rest
CONSTANT MATMUL_OWN_ROWS_ID = 14;    // rows that an invocation takes of the workgroup's; tiled only
// cpu8 only: blocks of 32 from a row of x to the next, if rows past the step's last may be read; otherwise
// 0.
CONSTANT MATMUL_ROW_BLOCKS_ID = 15;
CONSTANT MATMUL_LANE_BYTES_ID = 16;  // of a packed weight, see packed_row.glsl; portable only, else 16
CONSTANT MATMUL_PASS_BLOCKS_ID = 17; // cpu8 only: blocks unrolled in the loop over k, a divisor of `blocks`

// cpu8 only, of the adapters' matrices: dwords of a tile, 0 if there are no adapters; ADAPTER_*; dwords from a place to the
// next; and floats from a row of MATMUL_ADAPTER_H to the next.
CONSTANT MATMUL_ADAPTER_TILE_ID = 22;
CONSTANT MATMUL_ADAPTER_NUMBERS_ID = 23;
CONSTANT MATMUL_ADAPTER_PLACE_ID = 24;
CONSTANT MATMUL_ADAPTER_STRIDE_ID = 25;

CONSTANT MATRIX_OF_WORKGROUP = 2; // SPIR-V's numbers
CONSTANT MATRIX_OF_SUBGROUP = 3;

CONSTANT MATMUL_ROWS_OWN = 0;      // the result's row m is of x's row m
CONSTANT MATMUL_ROWS_ROUTED = 1;   // a routed product
CONSTANT MATMUL_ROWS_SELECTED = 2; // of the row that output m of the step names

CONSTANT EPILOGUE_BIAS = 1;       // add bias[n]
CONSTANT EPILOGUE_RESIDUAL = 2;   // add residual[m, n]
CONSTANT EPILOGUE_ACTIVATE = 4;   // activation
CONSTANT EPILOGUE_GATED = 8;      // tiles come in pairs: activation(first) * second
CONSTANT EPILOGUE_ROW_SCALE = 16; // before all others: multiply by the row's scale, which x still lacks
CONSTANT EPILOGUE_NEXT_NORM = 32; // after all others: leave what the norm after this product needs

struct MatmulParams {
  ADDRESS weights; // the same buffers by address, for LOAD_UNIFORM
  ADDRESS scales;
  ADDRESS x;
  ADDRESS adapter_h;
  ADDRESS adapter_up;
  UINT blocks;     // of 32 along k
  UINT x_stride;   // in floats
  UINT out_stride; // in floats
  UINT residual_stride;
  UINT rows_kind;  // ROWS_*
  UINT first_tile; // of a weight that is split over allocations: the result's columns are counted from here
  UINT slots_per_row; // routed: slots to a row of x
  UINT block_shift;   // routed: a block has 1 << block_shift slots
  UINT expert_tiles;  // routed: from one expert's first tile to the next one's
  UINT row_tiles;     // routed: an expert's tiles that have a place in the result
  UINT tiles;         // tiles of this segment of the weight
  UINT details;       // MATMUL_ROWS_SELECTED: where the details begin in the step block, in quads
  UINT scale_columns; // EPILOGUE_ROW_SCALE: the scale is 1 / sqrt(sum of squares / columns + eps)
  UINT scale_sums;    // from x's row: where there is a sum of squares for each eight columns, zeros after the
                      // last
  float scale_eps;
  UINT norm_weight;  // EPILOGUE_NEXT_NORM: where the weights begin in MATMUL_BIAS
  UINT normed;       // from the result's row: where the row times the weights goes
  UINT norm_sums;    // and the sums of the row's squares over each eight columns
  float norm_offset; // added to the weights
  UINT factors;      // cm only: where the quads of the rows' factors begin in MATMUL_HALVES
  UINT part_blocks;  // MATMUL_SPLIT_ID: blocks of a part of k
  UINT parts;        // add_parts only: how many there are
};

PUMICE_PARAMS_END

#ifdef __cplusplus
static_assert(sizeof(pumice::MatmulParams) == 128);
#endif
#endif
