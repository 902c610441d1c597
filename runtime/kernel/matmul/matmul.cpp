#include "kernel/matmul/matmul.h"

#include <algorithm>
#include <array>
#include <bit>

#include <fmt/format.h>

#include "kernel/lowering.h"
#include "kernel/matmul/matmul_variants.h"
#include "shaders/matmul/matmul.params.h"

namespace pumice {

namespace {

constexpr std::array variants = {&matmul_cpu8, &matmul_tiled,    &matmul_subgroup, &matmul_dot,
                                 &matmul_cm,   &matmul_cm_split, &matmul_cm2,      &matmul_portable};

} // namespace

std::span<const KernelVariant<MatmulArgs>* const> matmul_variants() {
  return variants;
}

static const FamilyRegistration matmul_registration("matmul", list_variants<matmul_variants>);

std::string matmul_shape_class(const MatmulArgs& args) {
  const MatmulExtent all = matmul_extent(args);
  return fmt::format("matmul {} {} x {} x {}{}{}", kernel_variant(args.format.type), rows_class(all.rows),
                     all.tiles * 8, args.format.columns, args.gated ? " gated" : "",
                     args.routing ? " routed" : "");
}

std::string_view chosen_matmul(const DeviceProfile& profile, const MatmulArgs& args) {
  return choose_variant(matmul_variants(), profile, args, matmul_shape_class(args)).name;
}

Status matmul(Lowering& lowering, const MatmulArgs& args) {
  if (args.adapter) return matmul_cpu8.lower(lowering, args); // whichever another product takes
  return lower_variant(lowering, matmul_variants(), args, matmul_shape_class(args));
}

MatmulExtent matmul_extent(const MatmulArgs& args) {
  if (!args.routing) return {args.result.rows, args.weight.tiles, 1};
  const uint32_t tiles = args.result.padded_columns() / 8 * (args.gated ? 2 : 1);
  return {args.routing->block_slots, tiles, args.routing->count};
}

uint32_t routed_block_slots(double slots_per_expert) {
  if (slots_per_expert < 3) return 1; // a block of four would be half empty
  return std::bit_floor(static_cast<uint32_t>(std::clamp(slots_per_expert, 4.0, 128.0)));
}

uint32_t matmul_epilogue(const MatmulArgs& args) {
  uint32_t epilogue = 0;
  if (args.bias && !(args.next_norm && args.next_norm->weight_at == 0)) epilogue |= EPILOGUE_BIAS;
  if (args.residual) epilogue |= EPILOGUE_RESIDUAL;
  if (args.gated) {
    epilogue |= EPILOGUE_GATED;
  } else if (args.activation != Activation::none) {
    epilogue |= EPILOGUE_ACTIVATE;
  }
  if (args.row_scale) epilogue |= EPILOGUE_ROW_SCALE;
  if (args.next_norm) epilogue |= EPILOGUE_NEXT_NORM;
  return epilogue;
}

uint32_t matmul_rows_from(const MatmulArgs& args) {
  if (args.routing) return MATMUL_ROWS_ROUTED;
  return args.selected_by ? MATMUL_ROWS_SELECTED : MATMUL_ROWS_OWN;
}

uint32_t rows_each(const MatmulArgs& args) {
  return args.routing ? args.routing->rows_each : 1;
}

MatmulParams matmul_params(const MatmulArgs& args) {
  MatmulParams params = {};
  params.blocks = args.format.blocks();
  params.x_stride = args.x.stride;
  params.out_stride = args.result.stride;
  if (args.residual) params.residual_stride = args.residual->stride;
  params.rows_kind = args.result.rows_kind;
  params.details = args.selected_by.value_or(0);
  params.first_tile = args.weight.first_tile;
  params.tiles = args.weight.tiles;
  if (args.routing) {
    params.slots_per_row = args.routing->slots_per_row;
    params.block_shift = static_cast<uint32_t>(std::countr_zero(args.routing->block_slots));
    params.expert_tiles = args.routing->expert_tiles;
    params.row_tiles = matmul_extent(args).tiles;
  }
  if (args.row_scale) {
    params.scale_columns = args.row_scale->columns;
    params.scale_eps = args.row_scale->eps;
    params.scale_sums = args.row_scale->sums_at;
  }
  if (args.next_norm) {
    params.norm_weight = args.next_norm->weight_at;
    params.norm_offset = args.next_norm->weight_offset;
    params.normed = args.next_norm->normed_at;
    params.norm_sums = args.next_norm->sums_at;
  }
  return params;
}

void bind_matmul(Dispatch& dispatch, const MatmulArgs& args) {
  dispatch.bind(MATMUL_STEP, args.step, Access::read);
  dispatch.bind(MATMUL_WEIGHTS, args.weight.payload, Access::read);
  dispatch.bind(MATMUL_X, args.x.buffer, Access::read);
  if (args.format.scaled()) dispatch.bind(MATMUL_SCALES, args.weight.scales, Access::read);
  if (args.bias) dispatch.bind(MATMUL_BIAS, *args.bias, Access::read);
  if (args.residual) dispatch.bind(MATMUL_RESIDUAL, args.residual->buffer, Access::read);
  if (args.adapter) {
    dispatch.bind(MATMUL_ADAPTER_H, args.adapter->h.buffer, Access::read);
    dispatch.bind(MATMUL_ADAPTER_UP, args.adapter->matrix, Access::read);
  }
  if (args.routing) dispatch.bind(MATMUL_EXPERT_BLOCKS, args.routing->blocks, Access::read);
  dispatch.bind(MATMUL_RESULT, args.result.buffer, Access::write);
}

void estimate_matmul(Dispatch& dispatch, const MatmulArgs& args) {
  // Each row of a routed product reads one expert, so no more experts are read than there are rows.
  const double rows = args.result.rows;
  const double share = args.routing ? 1.0 / args.routing->experts : 1.0;
  const double read = args.routing ? std::min(1.0, share * rows) : 1.0;
  dispatch.flops = 2.0 * rows * args.format.columns * args.weight.tiles * 8 * share;
  dispatch.bytes = static_cast<double>(args.weight.payload.bytes + args.weight.scales.bytes) * read +
                   4.0 * rows * (args.format.columns + args.weight.tiles * 8.0 * share);
}

} // namespace pumice
