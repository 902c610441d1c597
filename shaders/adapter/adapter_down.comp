#version 460
// ROWS rows and ADAPTER_RANKS rows of the matrix to a workgroup, whose invocations share the columns. Neighbouring rows with
// the same adapter share what is loaded of it. A row's sums run in the same order whatever is beside it.
// variant: -
#extension GL_GOOGLE_include_directive : require
#include "adapter/adapter_down.params.h"
#include "common/types.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = ADAPTER_DOWN_ROWS_ID) const uint ROWS = 1;
layout(constant_id = ADAPTER_DOWN_NUMBERS_ID) const uint ADAPTER_NUMBERS = ADAPTER_F32;
layout(push_constant) uniform Push { AdapterDownParams p; };
READ_BUFFER(uvec4, step_block, ADAPTER_DOWN_STEP);
READ_BUFFER(float, x, ADAPTER_DOWN_X);
READ_BUFFER(uvec4, matrix, ADAPTER_DOWN_MATRIX);
WRITE_BUFFER(float, result, ADAPTER_DOWN_RESULT);

#include "adapter/down_work.glsl"

shared float partial[ADAPTER_RANKS][gl_WorkGroupSize.x];

// The eight numbers of a column.
void load_column(uint tile, uint k, out vec4 low, out vec4 high) {
  const uint at = tile + 2u + 2u * (k / NUMBERS_OF_DWORD);
  const bool second = k % NUMBERS_OF_DWORD != 0u;
  low = numbers_of(matrix[at], second);
  high = numbers_of(matrix[at + 1u], second);
}

// Adds up what the invocations have, and stores it. One invocation for each sum adds the last eight numbers.
void store_sums(uint row, uint tile, vec4 low, vec4 high) {
  const uint i = gl_LocalInvocationID.x;
  [[unroll]] for (uint r = 0; r < 4u; ++r) {
    partial[r][i] = low[r];
    partial[r + 4u][i] = high[r];
  }
  barrier();
  for (uint n = gl_WorkGroupSize.x / 2u; n >= 8u; n /= 2u) {
    if (i < n) {
      [[unroll]] for (uint r = 0; r < ADAPTER_RANKS; ++r) partial[r][i] += partial[r][i + n];
    }
    barrier();
  }
  if (i < ADAPTER_RANKS) {
    float all = 0.0;
    for (uint j = 0; j < 8u; ++j) all += partial[i][j];
    result[row * p.out_stride + gl_WorkGroupID.y * ADAPTER_RANKS + i] = all * uintBitsToFloat(matrix[tile + i / 4u][i % 4u]);
  }
  barrier(); // the next sums may overwrite them
}

uint x_at(uint row, uint rows) { return p.x_first + min(row, rows - 1u) * p.x_stride; }

void main() {
  const uint rows = step_block[0][p.rows_kind], row = gl_WorkGroupID.x * ROWS;
  if (row >= rows) return;
  uint tile[ROWS];
  bool same = true;
  [[unroll]] for (uint m = 0; m < ROWS; ++m) {
    tile[m] = row + m < rows ? tile_of(row + m) : NO_TILE;
    same = same && tile[m] == tile[0];
  }
  if (same) {
    if (tile[0] == NO_TILE) return;
    vec4 low[ROWS], high[ROWS];
    [[unroll]] for (uint m = 0; m < ROWS; ++m) {
      low[m] = vec4(0.0);
      high[m] = vec4(0.0);
    }
    for (uint k = gl_LocalInvocationID.x; k < p.columns; k += gl_WorkGroupSize.x) {
      vec4 a, b;
      load_column(tile[0], k, a, b);
      [[unroll]] for (uint m = 0; m < ROWS; ++m) {
        const vec4 v = vec4(x[x_at(row + m, rows) + k]);
        low[m] = fma(v, a, low[m]);
        high[m] = fma(v, b, high[m]);
      }
    }
    [[unroll]] for (uint m = 0; m < ROWS; ++m) store_sums(row + m, tile[0], low[m], high[m]);
    return;
  }
  [[unroll]] for (uint m = 0; m < ROWS; ++m) {
    if (tile[m] == NO_TILE) continue;
    const uint from = x_at(row + m, rows);
    vec4 low = vec4(0.0), high = vec4(0.0);
    for (uint k = gl_LocalInvocationID.x; k < p.columns; k += gl_WorkGroupSize.x) {
      const vec4 v = vec4(x[from + k]);
      vec4 a, b;
      load_column(tile[m], k, a, b);
      low = fma(v, a, low);
      high = fma(v, b, high);
    }
    store_sums(row + m, tile[m], low, high);
  }
}
