#include "kernel/matmul.h"

#include <algorithm>

#include "shaders/common/step.h"
#include "shaders/matmul/matmul.params.h"

namespace pumice {

namespace {

// How much of the product one workgroup takes.
struct Shape {
  uint32_t rows;
  uint32_t tiles;
};

Shape lane8_shape(const KernelStyle& style, const MatmulArgs& args) {
  const uint32_t pair = args.gated ? 2 : 1;
  if (args.x.rows == 1) {
    // A single row needs several tiles to keep the adders busy.
    uint32_t tiles = 4;
    while (tiles > pair && args.weight.tiles / tiles < style.busy_groups) tiles /= 2;
    return {1, tiles};
  }
  // Sixteen sums fill the registers. Broadcasting x costs where lanes load their own, so fewer rows and more
  // tiles there.
  if (!style.uniform_loads || args.x.rows < 8) return {4, 4};
  return {8, 2};
}

Shape base_shape(const MatmulArgs& args) {
  const uint32_t pair = args.gated ? 2 : 1;
  if (args.x.rows >= 8) return {8 / pair, pair};
  return {args.x.rows > 1 ? 4u : 1u, pair};
}

} // namespace

Dispatch matmul(const KernelStyle& style, const MatmulArgs& args) {
  const PackedFormat& format = args.format;
  const Shape shape = style.lane8 ? lane8_shape(style, args) : base_shape(args);

  uint32_t epilogue = 0;
  if (args.bias) epilogue |= EPILOGUE_BIAS;
  if (args.residual) epilogue |= EPILOGUE_RESIDUAL;
  if (args.gated) {
    epilogue |= EPILOGUE_GATED;
  } else if (args.activation != Activation::none) {
    epilogue |= EPILOGUE_ACTIVATE;
  }

  Dispatch dispatch;
  dispatch.kernel = std::string(style.lane8 ? "matmul.lane8." : "matmul.") + kernel_variant(format.type);
  dispatch.constants = {style.lane8 ? 8 : style.workgroup,
                        shape.rows,
                        shape.tiles,
                        style.uniform_loads ? LOAD_UNIFORM : LOAD_LANE,
                        epilogue,
                        static_cast<uint32_t>(args.activation)};

  MatmulParams params = {};
  params.blocks = format.blocks();
  params.x_stride = args.x.stride;
  params.out_stride = args.result.stride;
  params.rows_kind = args.x.rows_kind;
  params.first_tile = args.weight.first_tile;
  dispatch.set_params(params);

  dispatch.bind(MATMUL_STEP, args.step, Access::read);
  dispatch.bind(MATMUL_WEIGHTS, args.weight.payload, Access::read);
  dispatch.bind(MATMUL_X, args.x.buffer, Access::read);
  if (format.scaled()) dispatch.bind(MATMUL_SCALES, args.weight.scales, Access::read);
  if (args.bias) dispatch.bind(MATMUL_BIAS, *args.bias, Access::read);
  if (args.residual) dispatch.bind(MATMUL_RESIDUAL, args.residual->buffer, Access::read);
  dispatch.bind(MATMUL_RESULT, args.result.buffer, Access::write);
  if (style.lane8 && style.uniform_loads) {
    dispatch.pass_address(offsetof(MatmulParams, weights), args.weight.payload);
    dispatch.pass_address(offsetof(MatmulParams, x), args.x.buffer);
    if (format.scaled()) dispatch.pass_address(offsetof(MatmulParams, scales), args.weight.scales);
  }

  dispatch.groups = {(args.x.rows + shape.rows - 1) / shape.rows, args.weight.tiles / shape.tiles, 1};
  dispatch.flops = 2.0 * args.x.rows * format.columns * args.weight.tiles * 8;
  dispatch.bytes = static_cast<double>(args.weight.payload.bytes + args.weight.scales.bytes) +
                   4.0 * args.x.rows * (format.columns + args.weight.tiles * 8.0);
  return dispatch;
}

} // namespace pumice
