#version 460
// For CPU drivers: a workgroup is one 8-lane vector, and a lane has a column of each of some tiles. Rows of the workgroup with
// the same adapter share what is loaded of it.
// variant: -
#extension GL_GOOGLE_include_directive : require
#include "adapter/adapter_up.params.h"
#include "common/activation.glsl"
#include "common/types.glsl"
#include "common/cpu8.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = ADAPTER_UP_GATED_ID) const uint GATED = 0;
layout(constant_id = ADAPTER_UP_ACTIVATION_ID) const uint ACTIVATION = 0;
layout(constant_id = ADAPTER_UP_LOAD_ID) const uint LOAD = LOAD_LANE;
layout(constant_id = ADAPTER_UP_NUMBERS_ID) const uint NUMBERS = ADAPTER_F32;
layout(constant_id = ADAPTER_UP_TOGETHER_ID) const uint TOGETHER = 1;
layout(push_constant) uniform Push { AdapterUpParams p; };
READ_BUFFER(uvec4, step_block, ADAPTER_UP_STEP);
READ_BUFFER(float, y, ADAPTER_UP_Y);
READ_BUFFER(float, h, ADAPTER_UP_H);
READ_BUFFER(uint, matrix, ADAPTER_UP_MATRIX);
WRITE_BUFFER(float, result, ADAPTER_UP_RESULT);

#include "adapter/cpu8_rows.glsl"
#include "adapter/numbers.glsl"
#include "adapter/row_adapter.glsl"

layout(buffer_reference, std430, buffer_reference_align = 16) readonly buffer AddressF32x4 { vec4 d[]; };

const uint TILES = ADAPTER_UP_TILES;
const uint DWORDS = TILES / NUMBERS_OF_DWORD; // of a lane in a row of the matrix

// A lane's numbers of its columns in a row of the matrix, of which it has all dwords.
void decode(uint dwords[DWORDS], out float numbers[TILES]) {
  [[unroll]] for (uint d = 0; d < DWORDS; ++d) {
    if (NUMBERS == ADAPTER_F32) {
      numbers[d] = uintBitsToFloat(dwords[d]);
    } else {
      const vec2 pair = number_pair(dwords[d]);
      numbers[2u * d] = pair.x;
      numbers[2u * d + 1u] = pair.y;
    }
  }
}

// What the adapter adds to a lane's columns of a product, for each of some rows. `at`: of the matrix's first row and the first of
// the columns, in dwords, as `row_dwords` is; `from`: of the rows' h, a multiple of 4.
void add_columns(uint at, uint row_dwords, uint from[TOGETHER], uint rank, out float sum[TOGETHER][TILES]) {
  [[unroll]] for (uint m = 0; m < TOGETHER; ++m) [[unroll]] for (uint t = 0; t < TILES; ++t) sum[m][t] = 0.0;
  uint dwords[DWORDS];
  float numbers[TILES];
  if (LOAD == LOAD_UNIFORM) {
    uvec2 row[TOGETHER];
    [[unroll]] for (uint m = 0; m < TOGETHER; ++m) row[m] = offset_address(p.h, from[m] * 4u);
    uvec2 address = offset_address(p.matrix, at * 4u);
    [[dont_unroll]] for (uint r = 0; r < rank; r += 4u) { // zeros follow an adapter's own ranks
      [[unroll]] for (uint i = 0; i < 4u; ++i) {
        [[unroll]] for (uint d = 0; d < DWORDS; ++d)
          dwords[d] = lane_select(AddressU32x4(address).d[2u * d], AddressU32x4(address).d[2u * d + 1u]);
        decode(dwords, numbers);
        [[unroll]] for (uint m = 0; m < TOGETHER; ++m) {
          const float factor = AddressF32x4(row[m]).d[r >> 2][i];
          [[unroll]] for (uint t = 0; t < TILES; ++t) sum[m][t] = fma(factor, numbers[t], sum[m][t]);
        }
        address = offset_address(address, row_dwords * 4u);
      }
    }
    return;
  }
  [[dont_unroll]] for (uint r = 0; r < rank; ++r) {
    [[unroll]] for (uint d = 0; d < DWORDS; ++d) dwords[d] = matrix[at + r * row_dwords + d * 8u + LANE];
    decode(dwords, numbers);
    [[unroll]] for (uint m = 0; m < TOGETHER; ++m) {
      const float factor = h[p.h_first + from[m] + r];
      [[unroll]] for (uint t = 0; t < TILES; ++t) sum[m][t] = fma(factor, numbers[t], sum[m][t]);
    }
  }
}

// Stores a row's results of a lane's columns.
void store(uint row, float scale, uint first, float sum[TILES], float factor[TILES]) {
  const uint y_at = p.y_first + row * p.y_stride, to = row * p.out_stride;
  [[unroll]] for (uint t = 0; t < TILES; ++t) {
    const uint column = first + 8u * t + LANE;
    float v = 0.0;
    if (column < p.columns) { // a view's row may end here
      const uint own = y_at + (GATED != 0u ? 2u * (first + 8u * t) + LANE : column);
      v = activate(ACTIVATION, y[own] + scale * sum[t]);
      if (GATED != 0u) v *= y[own + 8u] + scale * factor[t];
    }
    result[to + column] = v;
  }
}

void main() {
  const uint rows = step_block[0][p.rows_kind], first_row = gl_WorkGroupID.x * ADAPTER_UP_ROWS;
  if (first_row >= rows) return;
  const uint padded = (p.columns + 31u) & ~31u, row_dwords = padded / NUMBERS_OF_DWORD;
  const uint matrices = GATED != 0u ? 2u : 1u;
  const uint own = row_adapter(min(first_row + LANE, rows - 1u)).x;
  uint left = subgroupBallot(first_row + LANE < rows).x;
  while (left != 0u) {
    const uvec4 of_first = row_adapter(first_row + first_bit(left)); // all lanes know that it is the same for them
    const uvec4 adapter = left != 0u ? of_first : uvec4(0);
    const uint rank = adapter.x == 0u ? 0u : adapter.z;
    const uint at = (max(adapter.x, 1u) - 1u) * matrices * p.rank * row_dwords;
    uint same = subgroupBallot(own == adapter.x).x & left;
    left &= ~same;
    while (same != 0u) {
      uint row[TOGETHER], from[TOGETHER];
      float scale[TOGETHER];
      const uint first_of = first_bit(same);
      [[unroll]] for (uint m = 0; m < TOGETHER; ++m) {
        row[m] = first_row + take_bit(same, first_of);
        from[m] = row[m] * p.h_stride;
        scale[m] = uintBitsToFloat(row_adapter(row[m]).y);
      }
      for (uint first = gl_WorkGroupID.y * 8u * TILES; first < padded; first += gl_NumWorkGroups.y * 8u * TILES) {
        float sum[TOGETHER][TILES], factor[TOGETHER][TILES];
        const uint column_at = at + first / NUMBERS_OF_DWORD;
        add_columns(column_at, row_dwords, from, rank, sum);
        if (GATED != 0u) {
          uint second[TOGETHER];
          [[unroll]] for (uint m = 0; m < TOGETHER; ++m) second[m] = from[m] + p.rank;
          add_columns(column_at + p.rank * row_dwords, row_dwords, second, rank, factor);
        }
        [[unroll]] for (uint m = 0; m < TOGETHER; ++m) store(row[m], scale[m], first, sum[m], factor[m]);
      }
    }
  }
}
