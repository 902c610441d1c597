// What a product does with a finished sum before it is stored, where the row's scale is still to be computed from x.
#include "matmul/finish.glsl"
#include "matmul/row_scale.glsl"

float row_scale(uint x_row) {
  if ((EPILOGUE & EPILOGUE_ROW_SCALE) == 0u) return 1.0;
  return row_scale_of((x_row * p.x_stride + p.scale_sums) >> 2, p.scale_columns, p.scale_eps);
}
