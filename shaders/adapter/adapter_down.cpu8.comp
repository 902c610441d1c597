#version 460
// For CPU drivers: a workgroup is one 8-lane vector, and a lane has a row of the matrix. Sums stay in registers. Neighbouring
// rows with the same adapter share what is loaded of it; a row's sums run in the same order whatever is beside it.
// variant: -
#extension GL_GOOGLE_include_directive : require
#include "adapter/adapter_down.params.h"
#include "common/columns.glsl"
#include "common/types.glsl"
#include "common/cpu8.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = ADAPTER_DOWN_ROWS_ID) const uint ROWS = 1;
layout(constant_id = ADAPTER_DOWN_LOAD_ID) const uint LOAD = LOAD_LANE;
layout(push_constant) uniform Push { AdapterDownParams p; };
READ_BUFFER(uvec4, step_block, ADAPTER_DOWN_STEP);
READ_BUFFER(vec4, x, ADAPTER_DOWN_X);
READ_BUFFER(float, matrix, ADAPTER_DOWN_MATRIX);
WRITE_BUFFER(float, result, ADAPTER_DOWN_RESULT);

#include "adapter/down_work.glsl"

layout(buffer_reference, std430, buffer_reference_align = 16) readonly buffer AddressF32x4 { vec4 d[]; };

// A lane's number of column `k` of a tile, and four columns of a row of x, which all lanes have.
float weight_of(uvec2 tile, uint tile_at, uint k) {
  if (LOAD != LOAD_UNIFORM) return matrix[tile_at + k * 8u + LANE];
  return uintBitsToFloat(lane_select(AddressU32x4(tile).d[2u * k], AddressU32x4(tile).d[2u * k + 1u]));
}
vec4 quad_of(uvec2 row, uint row_at, uint i) {
  return LOAD != LOAD_UNIFORM ? x[row_at + i] : AddressF32x4(row).d[i];
}

// Two sums for the even and the odd columns: an addition need not wait for the one before.
void add_quad(vec4 v, vec4 weight, inout vec2 sum) {
  sum.x = fma(v.z, weight.z, fma(v.x, weight.x, sum.x));
  sum.y = fma(v.w, weight.w, fma(v.y, weight.y, sum.y));
}

void store_sum(uint row, vec2 sum) {
  result[row * p.out_stride + gl_WorkGroupID.y * ADAPTER_RANKS + LANE] = sum.x + sum.y;
}

void main() {
  const uint rows = step_block[0][p.rows_kind], first_row = gl_WorkGroupID.x * ROWS;
  if (first_row >= rows) return;
  uint begin[ROWS];
  const bool same = find_matrices(first_row, rows, begin);
  const uint quads = p.columns >> 2, left = p.columns & 3u;
  uvec2 row[ROWS];
  uint row_at[ROWS];
  [[unroll]] for (uint m = 0; m < ROWS; ++m) {
    const uint from = min(first_row + m, rows - 1u) * p.x_stride;
    row[m] = offset_address(p.x, from * 4u);
    row_at[m] = (p.x_first + from) >> 2;
  }
  if (same) {
    if (begin[0] == NO_MATRIX) return;
    const uvec2 tile = offset_address(p.matrix, begin[0] * 4u);
    vec2 sum[ROWS];
    [[unroll]] for (uint m = 0; m < ROWS; ++m) sum[m] = vec2(0.0);
    [[dont_unroll]] for (uint i = 0; i < quads; ++i) {
      vec4 weight;
      [[unroll]] for (uint j = 0; j < 4u; ++j) weight[j] = weight_of(tile, begin[0], 4u * i + j);
      [[unroll]] for (uint m = 0; m < ROWS; ++m) add_quad(quad_of(row[m], row_at[m], i), weight, sum[m]);
    }
    if (left != 0u) { // the matrix has zeros there, but a view of x may have anything
      vec4 weight;
      [[unroll]] for (uint j = 0; j < 4u; ++j) weight[j] = weight_of(tile, begin[0], 4u * quads + j);
      [[unroll]] for (uint m = 0; m < ROWS; ++m)
        add_quad(keep_columns(quad_of(row[m], row_at[m], quads), quads, p.columns), weight, sum[m]);
    }
    [[unroll]] for (uint m = 0; m < ROWS; ++m) store_sum(first_row + m, sum[m]);
    return;
  }
  [[unroll]] for (uint m = 0; m < ROWS; ++m) {
    if (begin[m] == NO_MATRIX) continue;
    const uvec2 tile = offset_address(p.matrix, begin[m] * 4u);
    vec2 sum = vec2(0.0);
    [[dont_unroll]] for (uint i = 0; i < quads + (left != 0u ? 1u : 0u); ++i) {
      vec4 weight;
      [[unroll]] for (uint j = 0; j < 4u; ++j) weight[j] = weight_of(tile, begin[m], 4u * i + j);
      const vec4 v = quad_of(row[m], row_at[m], i);
      add_quad(i < quads ? v : keep_columns(v, i, p.columns), weight, sum);
    }
    store_sum(first_row + m, sum);
  }
}
