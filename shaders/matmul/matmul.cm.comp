#version 460
// Matrix x matrix with cooperative matrices of any size M x N x K that divides a group's block of the result. A group is a
// subgroup, or the whole workgroup where GROUP is its size. Both operands are 16-bit floats (f16): halve_rows.comp has
// rounded x, and the weights are rounded when they are written to shared memory; sums have 32 bits.
// f16 keeps 11 bits of x and of each weight, so a product's error is about 2^-12 of its terms' root mean square; the
// portable kernels reach 2^-22.
// The order of the additions does not depend on ROWS. With SPLIT, workgroups along z take parts of k, and leave their plain sums to
// add_parts.comp.
// variant: {weight_type}
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#extension GL_KHR_cooperative_matrix : require
#extension GL_KHR_memory_scope_semantics : require
#include "common/codes.h"
#include "common/subgroup.glsl"
#include "common/types.glsl"
#include "matmul/halve_rows.params.h"
#include "matmul/matmul.params.h"

layout(local_size_x = 128, local_size_x_id = 0) in;
layout(constant_id = MATMUL_STAGED_CODES_ID) const uint CODES = CODES_FIELDS;
#define CODES CODES
#include "common/weight.glsl"

layout(constant_id = MATMUL_ROWS_ID) const uint ROWS = 64;
layout(constant_id = MATMUL_TILES_ID) const uint TILES = 8;
layout(constant_id = MATMUL_DEPTH_ID) const uint DEPTH = 2; // blocks of 32 columns in a pass
layout(constant_id = MATMUL_BUFFERS_ID) const uint BUFFERS = 1; // 2: the next pass is staged while this one is multiplied
layout(constant_id = MATMUL_GROUP_ID) const uint GROUP = 32; // invocations that multiply a matrix together
layout(constant_id = MATMUL_EPILOGUE_ID) const uint EPILOGUE = 0;
layout(constant_id = MATMUL_ACTIVATION_ID) const uint ACTIVATION = 0;
layout(constant_id = MATMUL_ROUTED_ID) const uint ROUTED = MATMUL_ROWS_OWN;
layout(constant_id = MATMUL_GROUPS_DOWN_ID) const uint GROUPS_DOWN = 2; // that share the rows; the others share the tiles
layout(constant_id = MATMUL_M_ID) const uint M = 16;
layout(constant_id = MATMUL_N_ID) const uint N = 16;
layout(constant_id = MATMUL_K_ID) const uint K = 16;
layout(constant_id = MATMUL_SCOPE_ID) const uint SCOPE = MATRIX_OF_SUBGROUP;
layout(constant_id = MATMUL_SPLIT_ID) const uint SPLIT = 0;
layout(push_constant) uniform Push { MatmulParams p; };
READ_BUFFER(uvec4, step_block, MATMUL_STEP);
READ_BUFFER(uvec4, weights, MATMUL_WEIGHTS);
READ_BUFFER(uint, weight_dwords, MATMUL_WEIGHTS); // the same, for what is left of a block after its quads
READ_BUFFER(uint, scales, MATMUL_SCALES);
READ_BUFFER(uvec4, x_halves, MATMUL_HALVES);
READ_BUFFER(float, bias, MATMUL_BIAS);
READ_BUFFER(float, residual, MATMUL_RESIDUAL);
WRITE_BUFFER(float, result, MATMUL_RESULT);
READ_BUFFER(uint, expert_blocks, MATMUL_EXPERT_BLOCKS);

#include "matmul/finish.glsl"
#include "matmul/work.glsl"

const uint WORKGROUP = gl_WorkGroupSize.x;
const uint GROUPS = WORKGROUP / GROUP;
const uint GROUPS_ACROSS = GROUPS / GROUPS_DOWN;
// A group's block of the result, and its matrices.
const uint GROUP_ROWS = ROWS / GROUPS_DOWN;
const uint GROUP_COLUMNS = TILES * 8 / GROUPS_ACROSS;
const uint MATRICES_DOWN = GROUP_ROWS / M;
const uint MATRICES_ACROSS = GROUP_COLUMNS / N;

// Gated tiles come in pairs.
const uint STRIP_COLUMNS = N > 16u ? N : 16u;
const uint STRIP_TILES = STRIP_COLUMNS / 8;
// M rows of each group's block, STRIP_COLUMNS wide, lie in shared memory between the sums and the result.
const uint STRIP_STRIDE = STRIP_COLUMNS / 4; // in quads
const uint STRIP_QUADS = GROUPS * M * STRIP_STRIDE;

#include "matmul/f16_operands.glsl"

// Stores them: of the groups' blocks, the rows from row `down` * M, the columns from `column`.
void store_strips(uint down, uint column) {
  const uint step = (EPILOGUE & EPILOGUE_GATED) != 0u ? 2u : 1u;
  const uint across = STRIP_TILES / step, strip = M * across;
  [[dont_unroll]] for (uint i = gl_LocalInvocationID.x; i < GROUPS * strip; i += WORKGROUP) {
    const uint group = i / strip, line = i % strip / across, t = i % across * step;
    const uint m = group / GROUPS_ACROSS * GROUP_ROWS + down * M + line;
    const uint tile = (group % GROUPS_ACROSS * GROUP_COLUMNS + column) / 8u + t;
    const uint row = result_row(m);
    if (row == MATMUL_NOTHING || !has_tile(tile)) continue;
    const uint at = (group * M + line) * STRIP_STRIDE + t * 2u;
    if (SPLIT == 1u) {
      const uint to = ((gl_WorkGroupID.z * rows + row) * p.tiles + tile0 + tile) * 8u;
      [[unroll]] for (uint n = 0; n < 8; ++n) result[to + n] = uintBitsToFloat(operands[at + n / 4][n % 4]);
      continue;
    }
    const vec2 factors = uintBitsToFloat(x_halves[p.factors + x_row(m)].xy);
    float first[8], second[8];
    [[unroll]] for (uint n = 0; n < 8; ++n) {
      first[n] = uintBitsToFloat(operands[at + n / 4][n % 4]) * factors.x;
      second[n] = step == 2u ? uintBitsToFloat(operands[at + 2u + n / 4][n % 4]) * factors.x : 0.0;
    }
    store_tile(row, column_tile0 + tile, factors.y, first, second);
  }
}

void main() {
  if (!find_work()) return;

  coopmat<float, SCOPE, M, N, gl_MatrixUseAccumulator> sums[MATRICES_DOWN * MATRICES_ACROSS];
  [[unroll]] for (uint i = 0; i < MATRICES_DOWN * MATRICES_ACROSS; ++i) {
    sums[i] = coopmat<float, SCOPE, M, N, gl_MatrixUseAccumulator>(0.0);
  }
  const uint group = GROUPS == 1u ? 0u : SUBGROUP_NUMBER;
  const uint first_row = group / GROUPS_ACROSS * GROUP_ROWS;
  const uint first_column = group % GROUPS_ACROSS * GROUP_COLUMNS;
  find_x();
  const uint first_kb = first_block(), end_kb = end_block();
  load_ahead(first_kb);
  uint buffer_at = 0u; // where the operands of this pass begin
  if (BUFFERS == 2u) {
    store_loaded(first_kb, 0u);
    load_ahead(first_kb + DEPTH);
    barrier();
  }
  [[dont_unroll]] for (uint kb = first_kb; kb < end_kb; kb += DEPTH) {
    if (BUFFERS == 2u) {
      store_loaded(kb + DEPTH, BUFFER_QUADS - buffer_at);
      load_ahead(kb + 2u * DEPTH);
    } else {
      store_loaded(kb, 0u);
      barrier();
      load_ahead(kb + DEPTH);
    }
    [[unroll]] for (uint k = 0; k < DEPTH * 32 / K; ++k) {
      coopmat<float16_t, SCOPE, M, K, gl_MatrixUseA> a[MATRICES_DOWN];
      [[unroll]] for (uint i = 0; i < MATRICES_DOWN; ++i) {
        coopMatLoad(a[i], operands, buffer_at + (first_row + i * M) * QUAD_STRIDE + k * (K / 8), QUAD_STRIDE,
                    gl_CooperativeMatrixLayoutRowMajor);
      }
      [[unroll]] for (uint j = 0; j < MATRICES_ACROSS; ++j) {
        coopmat<float16_t, SCOPE, K, N, gl_MatrixUseB> b;
        coopMatLoad(b, operands, buffer_at + WEIGHTS_F16 + (first_column + j * N) * QUAD_STRIDE + k * (K / 8), QUAD_STRIDE,
                    gl_CooperativeMatrixLayoutColumnMajor);
        [[unroll]] for (uint i = 0; i < MATRICES_DOWN; ++i) {
          sums[i * MATRICES_ACROSS + j] = coopMatMulAdd(a[i], b, sums[i * MATRICES_ACROSS + j]);
        }
      }
    }
    barrier();
    if (BUFFERS == 2u) buffer_at = BUFFER_QUADS - buffer_at;
  }

  // A matrix is always named by a constant. Drivers keep an array in memory where a loop that they leave as one indexes it.
  const uint together = STRIP_COLUMNS / N;
  [[dont_unroll]] for (uint first = 0; first < MATRICES_DOWN * MATRICES_ACROSS; first += together) {
    [[unroll]] for (uint i = 0; i < MATRICES_DOWN * MATRICES_ACROSS; ++i) {
      if (i / together != first / together) continue;
      coopMatStore(sums[i], operands, group * M * STRIP_STRIDE + i % together * (N / 4), STRIP_STRIDE,
                   gl_CooperativeMatrixLayoutRowMajor);
    }
    barrier();
    store_strips(first / MATRICES_ACROSS, first % MATRICES_ACROSS * N);
    barrier();
  }
}
