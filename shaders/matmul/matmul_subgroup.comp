#version 460
// Matrix x vector, for up to eight rows of x in a workgroup, on devices whose subgroups can shuffle. Neighbouring lanes load
// neighbouring quads of the weights, and what is loaded of x serves several tiles.
// variant: {weight_type}
#extension GL_GOOGLE_include_directive : require
#include "common/codes.h"
#include "matmul/matmul.params.h"

layout(constant_id = MATMUL_CODES_ID) const uint CODES = CODES_FIELDS;
#define CODES CODES
#define SCALE_AHEAD
#include "matmul/subgroup_slices.glsl"

// Adds block kb, which was loaded, to the sums, and loads block `next`.
void add_block(uint kb, uint next, uint row_quad[ROWS], inout float sum[ROWS][TILES]) {
  uint w[TILES][PAYLOAD];
  float scale[TILES][SCALE_COUNT], minimum[TILES][SCALE_COUNT];
  [[unroll]] for (uint t = 0; t < TILES; ++t) {
    unpack_scales(scales_ahead[t], kb, scale[t], minimum[t]);
    [[unroll]] for (uint c = 0; c < PAYLOAD; ++c) w[t][c] = ahead[t][c];
  }
  load_ahead(next);
  float products[ROWS][TILES], x_sum[ROWS];
  [[unroll]] for (uint j = 0; j < 8; ++j) {
    const uint scale_index = j / (8 / SCALE_COUNT);
    if (j % (8 / SCALE_COUNT) == 0) {
      [[unroll]] for (uint m = 0; m < ROWS; ++m) {
        x_sum[m] = 0.0;
        [[unroll]] for (uint t = 0; t < TILES; ++t) products[m][t] = 0.0;
      }
    }
    vec4 decoded[TILES];
    [[unroll]] for (uint t = 0; t < TILES; ++t) {
#ifdef MANTISSA_CODES
      if (CODES == CODES_MANTISSA) {
        [[unroll]] for (uint i = 0; i < 4; ++i) decoded[t][i] = placed_code(w[t], j, i);
        continue;
      }
#endif
      [[unroll]] for (uint i = 0; i < 4; ++i) decoded[t][i] = decode_weight(w[t], 4 * j + i);
    }
    [[unroll]] for (uint m = 0; m < ROWS; ++m) {
      vec4 xv = x[row_quad[m] + kb * 8u + j];
#ifdef MINIMUMS
      x_sum[m] += (xv.x + xv.y) + (xv.z + xv.w);
#endif
#ifdef MANTISSA_CODES
      if (CODES == CODES_MANTISSA) { // by powers of two: no bit is lost
        [[unroll]] for (uint i = 0; i < 4; ++i) xv[i] *= code_unit(j, i);
      }
#endif
      [[unroll]] for (uint t = 0; t < TILES; ++t) {
        [[unroll]] for (uint i = 0; i < 4; ++i) products[m][t] = fma(decoded[t][i], xv[i], products[m][t]);
      }
    }
    if (j % (8 / SCALE_COUNT) == 8 / SCALE_COUNT - 1) {
      [[unroll]] for (uint m = 0; m < ROWS; ++m) {
        [[unroll]] for (uint t = 0; t < TILES; ++t) {
          sum[m][t] = fma(products[m][t], scale[t][scale_index], sum[m][t]);
#ifdef MINIMUMS
          sum[m][t] = fma(x_sum[m], -minimum[t][scale_index], sum[m][t]);
#endif
        }
      }
    }
  }
}

void main() {
  if (!find_work()) return;
  uint row_quad[ROWS];
  float sum[ROWS][TILES];
  [[unroll]] for (uint m = 0; m < ROWS; ++m) {
    row_quad[m] = x_row(m) * (p.x_stride >> 2);
    [[unroll]] for (uint t = 0; t < TILES; ++t) sum[m][t] = 0.0;
  }
  const uint last = p.blocks - 1u;
  load_ahead(min(own_slice(), last));
  load_squares();
  for (uint kb = own_slice(); kb < p.blocks; kb += SLICES) add_block(kb, min(kb + SLICES, last), row_quad, sum);
  store_sums(sum);
}
