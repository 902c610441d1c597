#version 460
// ROWS rows and ADAPTER_RANKS rows of the matrix to a workgroup, whose invocations share the columns. Neighbouring rows with
// the same adapter share what is loaded of it. A row's sums run in the same order whatever is beside it.
// variant: -
#extension GL_GOOGLE_include_directive : require
#include "adapter/adapter_down.params.h"
#include "common/types.glsl"

layout(local_size_x_id = 0) in;
layout(constant_id = ADAPTER_DOWN_ROWS_ID) const uint ROWS = 1;
layout(push_constant) uniform Push { AdapterDownParams p; };
READ_BUFFER(uvec4, step_block, ADAPTER_DOWN_STEP);
READ_BUFFER(float, x, ADAPTER_DOWN_X);
READ_BUFFER(vec4, matrix, ADAPTER_DOWN_MATRIX);
WRITE_BUFFER(float, result, ADAPTER_DOWN_RESULT);

#include "adapter/down_work.glsl"

shared float partial[ADAPTER_RANKS][gl_WorkGroupSize.x];

// Adds up what the invocations have, and stores it. One invocation for each sum adds the last eight numbers.
void store_sums(uint row, vec4 low, vec4 high) {
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
    result[row * p.out_stride + gl_WorkGroupID.y * ADAPTER_RANKS + i] = all;
  }
  barrier(); // the next sums may overwrite them
}

uint x_at(uint row, uint rows) { return p.x_first + min(row, rows - 1u) * p.x_stride; }

void main() {
  const uint rows = step_block[0][p.rows_kind], row = gl_WorkGroupID.x * ROWS;
  if (row >= rows) return;
  uint begin[ROWS];
  if (find_matrices(row, rows, begin)) {
    if (begin[0] == NO_MATRIX) return;
    const uint at = begin[0] >> 2;
    vec4 low[ROWS], high[ROWS];
    [[unroll]] for (uint m = 0; m < ROWS; ++m) {
      low[m] = vec4(0.0);
      high[m] = vec4(0.0);
    }
    for (uint k = gl_LocalInvocationID.x; k < p.columns; k += gl_WorkGroupSize.x) {
      const vec4 a = matrix[at + 2u * k], b = matrix[at + 2u * k + 1u];
      [[unroll]] for (uint m = 0; m < ROWS; ++m) {
        const vec4 v = vec4(x[x_at(row + m, rows) + k]);
        low[m] = fma(v, a, low[m]);
        high[m] = fma(v, b, high[m]);
      }
    }
    [[unroll]] for (uint m = 0; m < ROWS; ++m) store_sums(row + m, low[m], high[m]);
    return;
  }
  [[unroll]] for (uint m = 0; m < ROWS; ++m) {
    if (begin[m] == NO_MATRIX) continue;
    const uint at = begin[m] >> 2, from = x_at(row + m, rows);
    vec4 low = vec4(0.0), high = vec4(0.0);
    for (uint k = gl_LocalInvocationID.x; k < p.columns; k += gl_WorkGroupSize.x) {
      const vec4 v = vec4(x[from + k]);
      low = fma(v, matrix[at + 2u * k], low);
      high = fma(v, matrix[at + 2u * k + 1u], high);
    }
    store_sums(row + m, low, high);
  }
}
