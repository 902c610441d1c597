// What low-rank adapters add to a product's sums, for kernels in which a lane has a column of a tile. The including file has
// the parameters, the buffers adapter_h and adapter_up, and the constants LOAD and ADAPTER_*.
//
// adapter_up: [places, matrices, tiles], where each matrix has as many tiles as merged ones do (merged_columns). A tile: where
// the sums of its matrix begin in a row of adapter_h, in floats; three dwords that are not used; and [ranks, 8] numbers, or
// [ranks / 2, 8, 2] where a dword has two.
#ifndef PUMICE_ADAPTER_SUM_GLSL
#define PUMICE_ADAPTER_SUM_GLSL
#include "adapter/numbers.glsl"

layout(buffer_reference, std430, buffer_reference_align = 16) readonly buffer AddressF32x4 { vec4 d[]; };

const uint ADAPTER_HEAD_DWORDS = 4;
const uint ADAPTER_RANKS_ABREAST = 16; // as many are unrolled, with constants for their places

// Counted from the first tile of a place.
uint adapter_tile(uint tile) {
  if ((EPILOGUE & EPILOGUE_GATED) == 0u) return tile;
  return (tile & 1u) * (ADAPTER_PLACE / ADAPTER_TILE / 2u) + (tile >> 1);
}

// Some of the ranks. `h_address` or `h_quad`, and `address` or `at`, in dwords: where theirs begin.
void add_ranks(uint count, uvec2 h_address, uint h_quad, uvec2 address, uint at, inout vec2 sum) {
  vec4 own = vec4(0.0); // a quad to a lane
  if (LOAD != LOAD_UNIFORM) own = adapter_h[h_quad + min(LANE, count / 4u - 1u)];
  [[unroll]] for (uint quad = 0; quad < count / 4u; ++quad) {
    vec4 h;
    [[unroll]] for (uint i = 0; i < 4u; ++i)
      h[i] = LOAD == LOAD_UNIFORM ? AddressF32x4(h_address).d[quad][i] : FROM_LANE(own[i], quad);
    float numbers[4];
    [[unroll]] for (uint i = 0; i < 4u; i += NUMBERS_OF_DWORD) {
      const uint d = (4u * quad + i) / NUMBERS_OF_DWORD;
      const uint dword = LOAD == LOAD_UNIFORM ? lane_select(AddressU32x4(address).d[2u * d], AddressU32x4(address).d[2u * d + 1u])
                                              : adapter_up[at + 8u * d + LANE];
      if (ADAPTER_NUMBERS == ADAPTER_F32) {
        numbers[i] = uintBitsToFloat(dword);
      } else {
        const vec2 pair = number_pair(dword);
        numbers[i] = pair.x;
        numbers[i + 1u] = pair.y;
      }
    }
    [[unroll]] for (uint i = 0; i < 4u; ++i) sum[i & 1u] = fma(h[i], numbers[i], sum[i & 1u]);
  }
}

// For a row of x and a tile of the result. All ranks that places have room for are added, since a loop around them that knew
// the row's would cost more; adapter_h has zeros behind those. The order of the additions depends on nothing else.
float adapter_sum(uint row, uint tile) {
  const uint ranks = (ADAPTER_TILE - ADAPTER_HEAD_DWORDS) / 8u * NUMBERS_OF_DWORD;
  const uint row_quad = row * (ADAPTER_STRIDE / 4u);
  const uvec2 row_address = offset_address(p.adapter_h, row_quad * 16u);
  const uint place = uint(LOAD == LOAD_UNIFORM ? AddressF32x4(row_address).d[0].x : adapter_h[row_quad].x);
  const uint at = (max(place, 1u) - 1u) * ADAPTER_PLACE + adapter_tile(tile) * ADAPTER_TILE;
  const uvec2 address = offset_address(p.adapter_up, at * 4u);
  const uint own_first = LOAD == LOAD_UNIFORM ? AddressU32x4(address).d[0].x : adapter_up[at];
  const uint first = place == 0u ? 0u : own_first; // nothing may have been written to the place that was read
  vec2 sum = vec2(0.0); // of the even and the odd ranks: an addition need not wait for the one before
  const uvec2 h = offset_address(row_address, first * 4u), numbers = offset_address(address, 4u * ADAPTER_HEAD_DWORDS);
  const uint h_quad = row_quad + first / 4u, numbers_at = at + ADAPTER_HEAD_DWORDS;
  if (ranks <= ADAPTER_RANKS_ABREAST) {
    add_ranks(ranks, h, h_quad, numbers, numbers_at, sum);
  } else {
    [[dont_unroll]] for (uint r = 0; r < ranks; r += 8u) {
      const uint dwords = r / NUMBERS_OF_DWORD * 8u;
      add_ranks(8u, offset_address(h, r * 4u), h_quad + r / 4u, offset_address(numbers, dwords * 4u), numbers_at + dwords, sum);
    }
  }
  return place == 0u ? 0.0 : sum.x + sum.y;
}

#endif
