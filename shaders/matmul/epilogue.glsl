// What a product does with a finished sum before it leaves the registers.
#include "common/activation.glsl"

// `tile` counts within the result; `second` is the paired tile's sum, for EPILOGUE_GATED only.
void store_result(uint row, uint tile, uint lane, float sum, float second) {
  if ((EPILOGUE & EPILOGUE_BIAS) != 0u) {
    sum += bias[tile * 8u + lane];
    if ((EPILOGUE & EPILOGUE_GATED) != 0u) second += bias[(tile + 1u) * 8u + lane];
  }
  uint column = tile * 8u + lane;
  if ((EPILOGUE & EPILOGUE_GATED) != 0u) {
    column = (tile >> 1) * 8u + lane;
    sum = activate(ACTIVATION, sum) * second;
  } else if ((EPILOGUE & EPILOGUE_ACTIVATE) != 0u) {
    sum = activate(ACTIVATION, sum);
  }
  const uint at = row * p.out_stride + column;
  if ((EPILOGUE & EPILOGUE_RESIDUAL) != 0u) sum += residual[at];
  result[at] = sum;
}
