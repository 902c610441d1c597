#version 460
// Matrix x matrix, for many rows of x. A workgroup loads a block of 32 columns of its rows of x and of its decoded tiles into
// shared memory. Each invocation takes OWN_ROWS rows and a tile, or a pair of tiles. The order of the sum over k does not
// depend on any of these sizes.
// variant: {weight_type}
#extension GL_GOOGLE_include_directive : require
#include "matmul/matmul.params.h"
#include "matmul/portable.glsl"

layout(constant_id = MATMUL_OWN_ROWS_ID) const uint OWN_ROWS = 4;

const uint ROW_GROUPS = ROWS / OWN_ROWS;
const uint TILE_GROUPS = TILES / PAIR;

// Rows of eight quads. Their order changes from row to row, so that neither lanes that write one row nor lanes that read
// a quad of different rows meet in a bank.
shared vec4 x_tile[ROWS * 8];
shared vec4 weight_tile[TILES * 64];

uint x_at(uint m, uint j) { return m * 8u + (j ^ (m & 7u)); }
uint weight_at(uint tile, uint row, uint j) { return (tile * 8u + row) * 8u + (j ^ ((tile ^ row) & 7u)); }

void fetch_x(uint kb) {
  for (uint i = gl_LocalInvocationID.x; i < ROWS * 8u; i += gl_WorkGroupSize.x) {
    x_tile[x_at(i / 8u, i % 8u)] = x[x_row(i / 8u) * (p.x_stride >> 2) + kb * 8u + i % 8u];
  }
}

void fetch_weights(uint kb) {
  for (uint i = gl_LocalInvocationID.x; i < TILES * 8u; i += gl_WorkGroupSize.x) {
    const uint tile = min(tile0 + i / 8u, p.tiles - 1u);
    uint w[PAYLOAD];
    load_block(tile, kb, i % 8u, w);
    float scale[SCALE_COUNT], minimum[SCALE_COUNT];
    load_scales(tile, kb, i % 8u, scale, minimum);
    [[unroll]] for (uint j = 0; j < 8; ++j) {
      vec4 quad;
      [[unroll]] for (uint n = 0; n < 4; ++n) quad[n] = decode_weight(w, 4 * j + n);
#if defined(MINIMUMS)
      quad = fma(quad, vec4(scale[j / (8 / SCALE_COUNT)]), vec4(-minimum[j / (8 / SCALE_COUNT)]));
#elif defined(SCALED)
      quad *= scale[j / (8 / SCALE_COUNT)];
#endif
      weight_tile[weight_at(i / 8u, i % 8u, j)] = quad;
    }
  }
}

void main() {
  if (!find_work()) return;
  const uint tile_group = gl_LocalInvocationID.x % TILE_GROUPS;
  const uint row_group = gl_LocalInvocationID.x / TILE_GROUPS;

  float sum[OWN_ROWS][PAIR * 8];
  [[unroll]] for (uint r = 0; r < OWN_ROWS; ++r) [[unroll]] for (uint n = 0; n < PAIR * 8; ++n) sum[r][n] = 0.0;
  for (uint kb = 0; kb < p.blocks; ++kb) {
    fetch_x(kb);
    fetch_weights(kb);
    barrier();
    [[dont_unroll]] for (uint j = 0; j < 8u; ++j) {
      vec4 xv[OWN_ROWS];
      [[unroll]] for (uint r = 0; r < OWN_ROWS; ++r) xv[r] = x_tile[x_at(r * ROW_GROUPS + row_group, j)];
      [[unroll]] for (uint n = 0; n < PAIR * 8; ++n) {
        const vec4 weight = weight_tile[weight_at(tile_group * PAIR + n / 8, n % 8, j)];
        [[unroll]] for (uint r = 0; r < OWN_ROWS; ++r) {
          [[unroll]] for (uint i = 0; i < 4; ++i) sum[r][n] = fma(weight[i], xv[r][i], sum[r][n]);
        }
      }
    }
    barrier();
  }

  // A row's scale takes a while to add up; one invocation does it for all.
  if ((EPILOGUE & EPILOGUE_ROW_SCALE) != 0u) {
    for (uint m = gl_LocalInvocationID.x; m < ROWS; m += gl_WorkGroupSize.x) x_tile[m].x = row_scale(x_row(m));
    barrier();
  }
  const uint t = tile_group * PAIR;
  if (!has_tile(t)) return;
  [[unroll]] for (uint r = 0; r < OWN_ROWS; ++r) {
    const uint m = r * ROW_GROUPS + row_group;
    const uint row = result_row(m);
    if (row != MATMUL_NOTHING) {
      float first[8], second[8];
      [[unroll]] for (uint n = 0; n < 8; ++n) {
        first[n] = sum[r][n];
        second[n] = sum[r][n + PAIR * 8 - 8];
      }
      store_tile(row, column_tile0 + t, (EPILOGUE & EPILOGUE_ROW_SCALE) != 0u ? x_tile[m].x : 1.0, first, second);
    }
  }
}
