#version 460
// The end of a product whose k is divided (MATMUL_SPLIT_ID): adds up what the parts of k gave, in their order, and does with the
// sums what products do. An invocation takes a column of a row of the result.
// variant: -
#extension GL_GOOGLE_include_directive : require
#include "common/types.glsl"
#include "matmul/matmul.params.h"

layout(local_size_x = 128, local_size_x_id = 0) in;
layout(constant_id = MATMUL_EPILOGUE_ID) const uint EPILOGUE = 0;
layout(constant_id = MATMUL_ACTIVATION_ID) const uint ACTIVATION = 0;
layout(constant_id = MATMUL_ROUTED_ID) const uint ROUTED = MATMUL_ROWS_OWN;
layout(push_constant) uniform Push { MatmulParams p; };
READ_BUFFER(uvec4, step_block, MATMUL_STEP);
READ_BUFFER(float, parts, MATMUL_X); // [parts, rows, tiles, 8]
READ_BUFFER(uvec4, x_halves, MATMUL_HALVES);
READ_BUFFER(float, bias, MATMUL_BIAS);
READ_BUFFER(float, residual, MATMUL_RESIDUAL);
WRITE_BUFFER(float, result, MATMUL_RESULT);

#include "matmul/finish.glsl"

shared float squares[gl_WorkGroupSize.x];

uint selected_row(uint row) {
  if (ROUTED != MATMUL_ROWS_SELECTED) return row;
  return min(step_block[p.details + row].x, step_block[0][ROWS_TOKENS] - 1u);
}

void main() {
  const uint row = gl_WorkGroupID.x, own = gl_LocalInvocationID.x, rows = step_block[0][p.rows_kind];
  if (row >= rows) return;
  const bool gated = (EPILOGUE & EPILOGUE_GATED) != 0u;
  const uint column = gl_WorkGroupID.y * gl_WorkGroupSize.x + own, lane = column % 8u;
  const uint tile = column / 8u * (gated ? 2u : 1u);
  squares[own] = 0.0;
  if (tile < p.tiles) {
    float first = 0.0, second = 0.0;
    for (uint part = 0; part < p.parts; ++part) {
      const uint at = ((part * rows + row) * p.tiles + tile) * 8u + lane;
      first += parts[at];
      if (gated) second += parts[at + 8u];
    }
    const vec2 factors = uintBitsToFloat(x_halves[p.factors + selected_row(row)].xy);
    squares[own] = store_lane(row, p.first_tile + tile, lane, factors.y, first * factors.x, second * factors.x);
  }
  if ((EPILOGUE & EPILOGUE_NEXT_NORM) == 0u) return;
  barrier();
  if (lane != 0u || tile >= p.tiles) return;
  store_squares(row, p.first_tile + tile,
                ((squares[own] + squares[own + 1u]) + (squares[own + 2u] + squares[own + 3u])) +
                    ((squares[own + 4u] + squares[own + 5u]) + (squares[own + 6u] + squares[own + 7u])));
}
