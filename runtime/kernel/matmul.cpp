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

// What there is to take: so many blocks of rows, and so many tiles for each.
struct Extent {
  uint32_t rows; // of a block
  uint32_t tiles;
  uint32_t blocks;
};

Extent extent(const MatmulArgs& args) {
  if (!args.routing) return {args.x.rows, args.weight.tiles, 1};
  const uint32_t tiles = args.result.padded_columns() / 8 * (args.gated ? 2 : 1);
  return {args.routing->block_slots, tiles, args.routing->count};
}

Shape lane8_shape(const KernelStyle& style, const MatmulArgs& args) {
  const uint32_t pair = args.gated ? 2 : 1;
  const Extent all = extent(args);
  if (all.rows == 1) {
    // A single row needs several tiles to keep the adders busy.
    uint32_t tiles = 4;
    while (tiles > pair && all.blocks * (all.tiles / tiles) < style.busy_groups) tiles /= 2;
    return {1, tiles};
  }
  // Sixteen sums fill the registers. Broadcasting x costs where lanes load their own, so fewer rows and more
  // tiles there.
  if (!style.uniform_loads || all.rows < 8) return {4, 4};
  return {8, 2};
}

Shape base_shape(const MatmulArgs& args) {
  const uint32_t pair = args.gated ? 2 : 1;
  const uint32_t rows = extent(args).rows;
  if (rows >= 8) return {8 / pair, pair};
  return {rows > 1 ? 4u : 1u, pair};
}

void route(Dispatch& dispatch, MatmulParams& params, const MatmulArgs& args) {
  params.slots_per_row = args.routing->slots_per_row;
  params.expert_tiles = args.routing->expert_tiles;
  params.tiles = args.weight.tiles;
  dispatch.bind(MATMUL_EXPERT_BLOCKS, args.routing->blocks, Access::read);
}

} // namespace

uint32_t routed_block_slots(const KernelStyle& style, double slots_per_expert) {
  if (slots_per_expert < 3) return 1; // a block of four would be half empty
  return style.lane8 && style.uniform_loads && slots_per_expert >= 8 ? 8 : 4;
}

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
                        static_cast<uint32_t>(args.activation),
                        args.routing ? 1u : 0u};

  MatmulParams params = {};
  params.blocks = format.blocks();
  params.x_stride = args.x.stride;
  params.out_stride = args.result.stride;
  params.rows_kind = args.x.rows_kind;
  params.first_tile = args.weight.first_tile;
  if (args.routing) route(dispatch, params, args);
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

  const Extent all = extent(args);
  dispatch.groups = {all.blocks * ((all.rows + shape.rows - 1) / shape.rows), all.tiles / shape.tiles, 1};
  // A routed product's row meets one of the experts, and at most as many as there are rows are read.
  const double rows = args.result.rows;
  const double share = args.routing ? 1.0 / args.routing->experts : 1.0;
  const double read = args.routing ? std::min(1.0, share * rows) : 1.0;
  dispatch.flops = 2.0 * rows * format.columns * args.weight.tiles * 8 * share;
  dispatch.bytes = static_cast<double>(args.weight.payload.bytes + args.weight.scales.bytes) * read +
                   4.0 * rows * (format.columns + args.weight.tiles * 8.0 * share);
  return dispatch;
}

} // namespace pumice
