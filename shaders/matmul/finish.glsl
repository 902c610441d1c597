// What a product does with a finished sum before it is stored.
#include "common/activation.glsl"

// The row of x, and of the residual, that a row of the result is of.
uint selected_row(uint row);

// A finished number of the result. `second` is the paired tile's sum, for EPILOGUE_GATED only; `tile` counts within the
// result and `lane` within the tile; `scale` is row_scale().
float finish(uint row, uint tile, uint lane, float scale, float sum, float second) {
  if ((EPILOGUE & EPILOGUE_ROW_SCALE) != 0u) {
    sum *= scale;
    second *= scale;
  }
  if ((EPILOGUE & EPILOGUE_BIAS) != 0u) {
    sum += bias[tile * 8u + lane];
    if ((EPILOGUE & EPILOGUE_GATED) != 0u) second += bias[(tile + 1u) * 8u + lane];
  }
  if ((EPILOGUE & EPILOGUE_GATED) != 0u) {
    sum = activate(ACTIVATION, sum) * second;
  } else if ((EPILOGUE & EPILOGUE_ACTIVATE) != 0u) {
    sum = activate(ACTIVATION, sum);
  }
  if ((EPILOGUE & EPILOGUE_RESIDUAL) != 0u) sum += residual[selected_row(row) * p.residual_stride + tile * 8u + lane];
  return sum;
}

// The tile's first column in the result's row.
uint result_column(uint tile) { return (EPILOGUE & EPILOGUE_GATED) != 0u ? (tile >> 1) * 8u : tile * 8u; }

// For kernels in which eight neighbouring lanes hold a tile: stores a lane's number, and returns its square.
float store_lane(uint row, uint tile, uint lane, float scale, float sum, float second) {
  sum = finish(row, tile, lane, scale, sum, second);
  const uint at = row * p.out_stride + result_column(tile) + lane;
  result[at] = sum;
  if ((EPILOGUE & EPILOGUE_NEXT_NORM) != 0u) {
    result[at + p.normed] = sum * (bias[p.norm_weight + tile * 8u + lane] + p.norm_offset);
  }
  return sum * sum;
}

// Their sum, which one of the lanes stores.
void store_squares(uint row, uint tile, float squares) { result[row * p.out_stride + p.norm_sums + tile] = squares; }

// For kernels in which one invocation has all of a tile. The squares are added in the order in which lanes do it.
void store_tile(uint row, uint tile, float scale, float sum[8], float second[8]) {
  float square[8];
  [[unroll]] for (uint lane = 0; lane < 8; ++lane) {
    square[lane] = store_lane(row, tile, lane, scale, sum[lane], second[lane]);
  }
  if ((EPILOGUE & EPILOGUE_NEXT_NORM) != 0u) {
    store_squares(row, tile,
                  ((square[0] + square[1]) + (square[2] + square[3])) + ((square[4] + square[5]) + (square[6] + square[7])));
  }
}
