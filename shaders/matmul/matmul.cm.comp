#version 460
// Matrix x matrix with cooperative matrices of any size M x N x K that divides a group's block of the result. A group is a
// subgroup, or the whole workgroup where GROUP is its size. Both operands are rounded to 16-bit floats (f16) when they are
// written to shared memory; sums have 32 bits.
// f16 keeps 11 bits of x and of each weight, so a product's error is about 2^-12 of its terms' root mean square; the
// portable kernels reach 2^-22. Each row of x is first multiplied by a power of two that takes its largest number to 2^14
// or just above. So no number overflows, and only numbers 2^28 times smaller lose bits. The sums are divided by it again.
// Weights outside the range of f16 are clamped.
// The order of the additions does not depend on ROWS.
// variant: {weight_type}
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#extension GL_KHR_cooperative_matrix : require
#extension GL_KHR_memory_scope_semantics : require
#include "common/subgroup.glsl"
#include "common/types.glsl"
#include "common/weight.glsl"
#include "matmul/matmul.params.h"

layout(local_size_x = 128, local_size_x_id = 0) in;
layout(constant_id = MATMUL_ROWS_ID) const uint ROWS = 64;
layout(constant_id = MATMUL_TILES_ID) const uint TILES = 8;
layout(constant_id = MATMUL_GROUP_ID) const uint GROUP = 32; // invocations that multiply a matrix together
layout(constant_id = MATMUL_EPILOGUE_ID) const uint EPILOGUE = 0;
layout(constant_id = MATMUL_ACTIVATION_ID) const uint ACTIVATION = 0;
layout(constant_id = MATMUL_ROUTED_ID) const uint ROUTED = MATMUL_ROWS_OWN;
layout(constant_id = MATMUL_GROUPS_DOWN_ID) const uint GROUPS_DOWN = 2; // groups among which the rows are divided; the others divide the tiles
layout(constant_id = MATMUL_M_ID) const uint M = 16;
layout(constant_id = MATMUL_N_ID) const uint N = 16;
layout(constant_id = MATMUL_K_ID) const uint K = 16;
layout(constant_id = MATMUL_SCOPE_ID) const uint SCOPE = MATRIX_OF_SUBGROUP;
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
#include "matmul/f16_operands.glsl"

const uint WORKGROUP = gl_WorkGroupSize.x;
const uint GROUPS = WORKGROUP / GROUP;
const uint GROUPS_ACROSS = GROUPS / GROUPS_DOWN;
// A group's block of the result, and its matrices.
const uint GROUP_ROWS = ROWS / GROUPS_DOWN;
const uint GROUP_COLUMNS = TILES * 8 / GROUPS_ACROSS;
const uint MATRICES_DOWN = GROUP_ROWS / M;
const uint MATRICES_ACROSS = GROUP_COLUMNS / N;

// One row of matrices of each group, between the sums and the result.
shared float strips[GROUPS * M * GROUP_COLUMNS];

// Stores M rows of every group's block, from row `down` * M; gated tiles come in pairs.
void store_strips(uint down) {
  const uint step = (EPILOGUE & EPILOGUE_GATED) != 0u ? 2u : 1u;
  const uint across = GROUP_COLUMNS / 8 / step, strip = M * across;
  [[dont_unroll]] for (uint i = gl_LocalInvocationID.x; i < GROUPS * strip; i += WORKGROUP) {
    const uint group = i / strip, line = i % strip / across, t = i % across * step;
    const uint m = group / GROUPS_ACROSS * GROUP_ROWS + down * M + line;
    const uint tile = group % GROUPS_ACROSS * (GROUP_COLUMNS / 8) + t;
    const uint row = result_row(m);
    if (row == MATMUL_NOTHING || tile0 + tile >= p.tiles) continue;
    const uint at = (group * M + line) * GROUP_COLUMNS + t * 8u;
    float first[8], second[8];
    [[unroll]] for (uint n = 0; n < 8; ++n) {
      first[n] = strips[at + n] * unscale[m];
      second[n] = step == 2u ? strips[at + 8u + n] * unscale[m] : 0.0;
    }
    store_tile(row, column_tile0 + tile, row_factor[m], first, second);
  }
}

void main() {
  if (!find_work()) return;
  scale_rows();

  coopmat<float, SCOPE, M, N, gl_MatrixUseAccumulator> sums[MATRICES_DOWN * MATRICES_ACROSS];
  [[unroll]] for (uint i = 0; i < MATRICES_DOWN * MATRICES_ACROSS; ++i) {
    sums[i] = coopmat<float, SCOPE, M, N, gl_MatrixUseAccumulator>(0.0);
  }
  const uint group = GROUPS == 1u ? 0u : SUBGROUP_NUMBER;
  const uint first_row = group / GROUPS_ACROSS * GROUP_ROWS;
  const uint first_column = group % GROUPS_ACROSS * GROUP_COLUMNS;
  for (uint kb = 0; kb < p.blocks; kb += DEPTH) {
    load_x(kb);
    load_weights(kb);
    barrier();
    [[dont_unroll]] for (uint k = 0; k < DEPTH * 32 / K; ++k) {
      coopmat<float16_t, SCOPE, M, K, gl_MatrixUseA> a[MATRICES_DOWN];
      [[unroll]] for (uint i = 0; i < MATRICES_DOWN; ++i) {
        coopMatLoad(a[i], x_f16, (first_row + i * M) * PAIR_STRIDE + k * (K / 2), PAIR_STRIDE,
                    gl_CooperativeMatrixLayoutRowMajor);
      }
      [[unroll]] for (uint j = 0; j < MATRICES_ACROSS; ++j) {
        coopmat<float16_t, SCOPE, K, N, gl_MatrixUseB> b;
        coopMatLoad(b, weights_f16, (first_column + j * N) * PAIR_STRIDE + k * (K / 2), PAIR_STRIDE,
                    gl_CooperativeMatrixLayoutColumnMajor);
        [[unroll]] for (uint i = 0; i < MATRICES_DOWN; ++i) {
          sums[i * MATRICES_ACROSS + j] = coopMatMulAdd(a[i], b, sums[i * MATRICES_ACROSS + j]);
        }
      }
    }
    barrier();
  }

  [[unroll]] for (uint i = 0; i < MATRICES_DOWN; ++i) {
    [[unroll]] for (uint j = 0; j < MATRICES_ACROSS; ++j) {
      coopMatStore(sums[i * MATRICES_ACROSS + j], strips, group * M * GROUP_COLUMNS + j * N, GROUP_COLUMNS,
                   gl_CooperativeMatrixLayoutRowMajor);
    }
    barrier();
    store_strips(i);
    barrier();
  }
}
