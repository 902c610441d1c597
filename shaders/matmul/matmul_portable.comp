#version 460
// Matrix x vector and matrix x matrix for any device: eight weight rows to a workgroup, its invocations spread along k,
// their sums added up in shared memory. The order of the additions does not depend on ROWS.
// variant: {weight_type}
#extension GL_GOOGLE_include_directive : require
#include "matmul/portable.glsl"

const uint SLICES = gl_WorkGroupSize.x / 8; // of k
shared float partial[ROWS * TILES * gl_WorkGroupSize.x];

// One lane's sums over its slice of the blocks.
void sum_slice(uint lane, uint slice, uint tile, uint row_quad[ROWS], out float sum[ROWS]) {
  [[unroll]] for (uint m = 0; m < ROWS; ++m) sum[m] = 0.0;
  for (uint kb = slice; kb < p.blocks; kb += SLICES) {
    uint w[PAYLOAD];
    load_block(tile, kb, lane, w);
    float scale[SCALE_COUNT], minimum[SCALE_COUNT];
    load_scales(tile, kb, lane, scale, minimum);
    float products[ROWS], x_sum[ROWS];
    [[unroll]] for (uint j = 0; j < 8; ++j) {
      const uint scale_index = j / (8 / SCALE_COUNT);
      if (j % (8 / SCALE_COUNT) == 0) {
        [[unroll]] for (uint m = 0; m < ROWS; ++m) products[m] = x_sum[m] = 0.0;
      }
      vec4 decoded;
      [[unroll]] for (uint i = 0; i < 4; ++i) decoded[i] = decode_weight(w, 4 * j + i);
      [[unroll]] for (uint m = 0; m < ROWS; ++m) {
        const vec4 xv = x[row_quad[m] + kb * 8u + j];
        [[unroll]] for (uint i = 0; i < 4; ++i) products[m] = fma(decoded[i], xv[i], products[m]);
#ifdef MINIMUMS
        x_sum[m] += (xv.x + xv.y) + (xv.z + xv.w);
#endif
        if (j % (8 / SCALE_COUNT) == 8 / SCALE_COUNT - 1) {
          sum[m] = fma(products[m], scale[scale_index], sum[m]);
#ifdef MINIMUMS
          sum[m] = fma(x_sum[m], -minimum[scale_index], sum[m]);
#endif
        }
      }
    }
  }
}

void main() {
  if (!find_work()) return;
  const uint lane = gl_LocalInvocationID.x % 8u;
  const uint slice = gl_LocalInvocationID.x / 8u;

  uint row_quad[ROWS];
  [[unroll]] for (uint m = 0; m < ROWS; ++m) row_quad[m] = x_row(m) * (p.x_stride >> 2);
  for (uint t = 0; t < TILES; ++t) {
    float sum[ROWS];
    sum_slice(lane, slice, tile0 + t, row_quad, sum);
    [[unroll]] for (uint m = 0; m < ROWS; ++m) partial[((t * ROWS + m) * SLICES + slice) * 8u + lane] = sum[m];
  }
  barrier();

  // One invocation for each row and tile adds the slices up, in order.
  for (uint i = gl_LocalInvocationID.x; i < ROWS * (TILES / PAIR); i += gl_WorkGroupSize.x) {
    const uint m = i % ROWS, t = i / ROWS * PAIR;
    const uint row = result_row(m);
    if (row == MATMUL_NOTHING) continue;
    float first[8], second[8];
    [[unroll]] for (uint n = 0; n < 8; ++n) {
      first[n] = second[n] = 0.0;
      for (uint s = 0; s < SLICES; ++s) {
        first[n] += partial[((t * ROWS + m) * SLICES + s) * 8u + n];
        if (PAIR == 2u) second[n] += partial[(((t + 1u) * ROWS + m) * SLICES + s) * 8u + n];
      }
    }
    store_tile(row, column_tile0 + t, row_scale(x_row(m)), first, second);
  }
}
