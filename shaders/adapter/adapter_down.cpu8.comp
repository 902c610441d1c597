#version 460
// For CPU drivers: a workgroup is one 8-lane vector, and a lane has a row of the matrix. Sums stay in registers. Rows of the
// workgroup with the same adapter share what is loaded of it; a row's sums run in the same order whatever is beside it.
// variant: -
#extension GL_GOOGLE_include_directive : require
#include "adapter/adapter_down.params.h"
#include "common/columns.glsl"
#include "common/types.glsl"
#include "common/cpu8.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = ADAPTER_DOWN_ROWS_ID) const uint ROWS = 1;
layout(constant_id = ADAPTER_DOWN_LOAD_ID) const uint LOAD = LOAD_LANE;
layout(constant_id = ADAPTER_DOWN_NUMBERS_ID) const uint ADAPTER_NUMBERS = ADAPTER_F32;
layout(constant_id = ADAPTER_DOWN_TOGETHER_ID) const uint TOGETHER = 1;
layout(push_constant) uniform Push { AdapterDownParams p; };
READ_BUFFER(uvec4, step_block, ADAPTER_DOWN_STEP);
READ_BUFFER(vec4, x, ADAPTER_DOWN_X);
READ_BUFFER(uint, matrix, ADAPTER_DOWN_MATRIX);
WRITE_BUFFER(float, result, ADAPTER_DOWN_RESULT);

#include "adapter/cpu8_rows.glsl"
#include "adapter/down_work.glsl"

layout(buffer_reference, std430, buffer_reference_align = 16) readonly buffer AddressF32x4 { vec4 d[]; };

// A lane's dword `i` of a tile, which begins at quad `at`, and four columns of a row of x, which all lanes have.
uint dword_of(uvec2 tile, uint at, uint i) {
  if (LOAD != LOAD_UNIFORM) return matrix[4u * at + i * 8u + LANE];
  return lane_select(AddressU32x4(tile).d[2u * i], AddressU32x4(tile).d[2u * i + 1u]);
}
vec4 quad_of(uvec2 row, uint row_at, uint i) {
  return LOAD != LOAD_UNIFORM ? x[row_at + i] : AddressF32x4(row).d[i];
}

const uint BLOCK_QUADS = 64u / NUMBERS_OF_DWORD; // of a tile, for 32 columns

// A lane's numbers of columns 4i to 4i + 3. The first dword is the scale.
vec4 weights_of(uvec2 tile, uint at, uint i) {
  vec4 weights;
  if (ADAPTER_NUMBERS == ADAPTER_F32) {
    [[unroll]] for (uint j = 0; j < 4u; ++j) weights[j] = uintBitsToFloat(dword_of(tile, at, 1u + 4u * i + j));
  } else {
    weights.xy = number_pair(dword_of(tile, at, 1u + 2u * i));
    weights.zw = number_pair(dword_of(tile, at, 2u + 2u * i));
  }
  return weights;
}

// Two sums for the even and the odd columns: an addition need not wait for the one before.
void add_quad(vec4 v, vec4 weights, inout vec2 sum) {
  sum.x = fma(v.z, weights.z, fma(v.x, weights.x, sum.x));
  sum.y = fma(v.w, weights.w, fma(v.y, weights.y, sum.y));
}

void main() {
  const uint rows = step_block[0][p.rows_kind], first_row = gl_WorkGroupID.x * ROWS;
  if (first_row >= rows) return;
  const uint own_row = first_row + LANE;
  if (gl_WorkGroupID.y == 0u && LANE < ROWS && own_row < rows) result[own_row * p.out_stride] = float(row_adapter(own_row).x);
  const uint own = LANE < ROWS && own_row < rows ? tile_of(own_row) : NO_TILE;
  if (LANE < ROWS && own_row < rows && own == NO_TILE) {
    [[unroll]] for (uint i = 0; i < ADAPTER_RANKS; ++i)
      result[own_row * p.out_stride + ADAPTER_HEAD + gl_WorkGroupID.y * ADAPTER_RANKS + i] = 0.0;
  }
  uint left = subgroupBallot(own != NO_TILE).x;
  const uint quads = p.columns >> 2, more = p.columns & 3u;
  while (left != 0u) {
    const uint of_first = tile_of(first_row + first_bit(left)); // all lanes know that it is the same for them
    const uint at = left != 0u ? of_first : 0u;
    const uvec2 tile = offset_address(p.matrix, at * 16u);
    uint same = subgroupBallot(own == at).x;
    left &= ~same;
    while (same != 0u) {
      uint row[TOGETHER], row_at[TOGETHER];
      uvec2 row_address[TOGETHER];
      vec2 sum[TOGETHER];
      const uint first = first_bit(same);
      [[unroll]] for (uint m = 0; m < TOGETHER; ++m) {
        row[m] = first_row + take_bit(same, first);
        row_address[m] = offset_address(p.x, row[m] * p.x_stride * 4u);
        row_at[m] = (p.x_first + row[m] * p.x_stride) >> 2;
        sum[m] = vec2(0.0);
      }
      // Within a block of 32 columns, places are constants, which cost nothing.
      [[dont_unroll]] for (uint block = 0; block < quads / 8u; ++block) {
        const uint more_at = block * BLOCK_QUADS;
        const uvec2 of_tile = offset_address(tile, more_at * 16u);
        uvec2 of_row[TOGETHER];
        [[unroll]] for (uint m = 0; m < TOGETHER; ++m) of_row[m] = offset_address(row_address[m], block * 128u);
        [[unroll]] for (uint i = 0; i < 8u; ++i) {
          const vec4 weights = weights_of(of_tile, at + more_at, i);
          [[unroll]] for (uint m = 0; m < TOGETHER; ++m)
            add_quad(quad_of(of_row[m], row_at[m] + 8u * block, i), weights, sum[m]);
        }
      }
      [[dont_unroll]] for (uint i = quads & ~7u; i < quads; ++i) {
        const vec4 weights = weights_of(tile, at, i);
        [[unroll]] for (uint m = 0; m < TOGETHER; ++m) add_quad(quad_of(row_address[m], row_at[m], i), weights, sum[m]);
      }
      if (more != 0u) { // the matrix has zeros there, but a view of x may have anything
        const vec4 weights = weights_of(tile, at, quads);
        [[unroll]] for (uint m = 0; m < TOGETHER; ++m)
          add_quad(keep_columns(quad_of(row_address[m], row_at[m], quads), quads, p.columns), weights, sum[m]);
      }
      const float scale = uintBitsToFloat(dword_of(tile, at, 0u));
      [[unroll]] for (uint m = 0; m < TOGETHER; ++m) {
        const uint to = row[m] * p.out_stride + ADAPTER_HEAD + gl_WorkGroupID.y * ADAPTER_RANKS + LANE;
        result[to] = (sum[m].x + sum[m].y) * scale * uintBitsToFloat(row_adapter(row[m]).y);
      }
    }
  }
}
