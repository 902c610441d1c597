#version 460
// For CPU drivers: a workgroup is one 8-lane vector, and a lane has a column of each of some tiles.
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
layout(push_constant) uniform Push { AdapterUpParams p; };
READ_BUFFER(uvec4, step_block, ADAPTER_UP_STEP);
READ_BUFFER(float, y, ADAPTER_UP_Y);
READ_BUFFER(float, h, ADAPTER_UP_H);
READ_BUFFER(float, matrix, ADAPTER_UP_MATRIX);
WRITE_BUFFER(float, result, ADAPTER_UP_RESULT);

#include "adapter/row_adapter.glsl"

layout(buffer_reference, std430, buffer_reference_align = 16) readonly buffer AddressF32x4 { vec4 d[]; };

const uint TILES = ADAPTER_UP_TILES;

// What the adapter adds to a lane's columns of a product. `at`: of the matrix's first row and the first of the columns;
// `from`: of the row's h, a multiple of 4.
void added(uint at, uint padded, uint from, uint rank, out float sum[TILES]) {
  [[unroll]] for (uint t = 0; t < TILES; ++t) sum[t] = 0.0;
  if (LOAD == LOAD_UNIFORM) {
    const uvec2 row = offset_address(p.h, from * 4u);
    uvec2 numbers = offset_address(p.matrix, at * 4u);
    [[dont_unroll]] for (uint r = 0; r < rank; r += 4u) { // zeros follow an adapter's own ranks
      const vec4 factors = AddressF32x4(row).d[r >> 2];
      [[unroll]] for (uint i = 0; i < 4u; ++i) {
        [[unroll]] for (uint t = 0; t < TILES; ++t) {
          const uvec4 low = AddressU32x4(numbers).d[2u * t], high = AddressU32x4(numbers).d[2u * t + 1u];
          sum[t] = fma(factors[i], uintBitsToFloat(lane_select(low, high)), sum[t]);
        }
        numbers = offset_address(numbers, padded * 4u);
      }
    }
    return;
  }
  [[dont_unroll]] for (uint r = 0; r < rank; ++r) {
    const float factor = h[p.h_first + from + r];
    [[unroll]] for (uint t = 0; t < TILES; ++t) sum[t] = fma(factor, matrix[at + r * padded + t * 8u + LANE], sum[t]);
  }
}

void main() {
  const uint row = gl_WorkGroupID.x;
  if (row >= step_block[0][p.rows_kind]) return;
  const uvec4 adapter = row_adapter(row);
  const uint rank = adapter.x == 0u ? 0u : adapter.z;
  const float scale = uintBitsToFloat(adapter.y);
  const uint padded = (p.columns + 31u) & ~31u;
  const uint matrices = GATED != 0u ? 2u : 1u;
  const uint at = (max(adapter.x, 1u) - 1u) * matrices * p.rank * padded;
  const uint from = row * p.h_stride;
  const uint y_at = p.y_first + row * p.y_stride, to = row * p.out_stride;
  for (uint first = gl_WorkGroupID.y * 8u * TILES; first < padded; first += gl_NumWorkGroups.y * 8u * TILES) {
    float sum[TILES], factor[TILES];
    added(at + first, padded, from, rank, sum);
    if (GATED != 0u) added(at + p.rank * padded + first, padded, from + p.rank, rank, factor);
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
}
