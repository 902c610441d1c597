#include <algorithm>

#include "kernel/lowering.h"
#include "kernel/matmul/matmul_variants.h"
#include "shaders/matmul/matmul.params.h"

namespace pumice {

namespace {

// How much of the product one workgroup takes. The choice never changes the order of a sum.
struct Shape {
  uint32_t rows = 64;
  uint32_t tiles = 8;
  uint32_t groups = 0; // workgroups in all
};

uint32_t shared_bytes(const Shape& shape) {
  return (shape.rows + shape.tiles * 8) * 32 * 4; // a block of 32 columns as floats
}

Shape workgroup_shape(const DeviceProfile& profile, const MatmulArgs& args) {
  const MatmulExtent all = matmul_extent(args);
  const auto shape = [&](uint32_t rows, uint32_t tiles) {
    return Shape{rows, tiles, all.groups(rows) * ((all.tiles + tiles - 1) / tiles)};
  };
  // Wide where it fits the device and there is enough work: each value of x that is loaded then serves more
  // tiles.
  const uint32_t most = !args.routing && all.rows > 32 && all.rows <= 48 ? 48 : 64;
  const Shape wide = shape(most, 16);
  if (all.rows > 32 && shared_bytes(wide) <= profile.shared_bytes && wide.groups >= profile.busy_groups) {
    return wide;
  }
  uint32_t rows = shape(most, 8).groups >= profile.busy_groups ? most : 64;
  while (rows > 16 && (all.rows <= rows / 2 || shape(rows, 8).groups < profile.busy_groups)) rows /= 2;
  return shape(rows, 8);
}

bool runs(const DeviceProfile&, const MatmulArgs& args) {
  // The smallest workgroup takes 16 rows, of which half are in use.
  return args.format.lane_bytes == 16 && matmul_extent(args).rows > 8;
}

Status lower(Lowering& lowering, const MatmulArgs& args) {
  const Shape shape = workgroup_shape(lowering.profile(), args);
  const uint32_t pair = args.gated ? 2 : 1;
  // So many rows of its tiles that an invocation has registers for their sums.
  const uint32_t own_rows = std::min(shape.rows / 8, lowering.profile().registers.tiled_sums / 8) / pair;
  Dispatch dispatch;
  dispatch.kernel = "matmul_tiled." + kernel_variant(args.format.type);
  dispatch.constants = {shape.rows / own_rows * (shape.tiles / pair),
                        shape.rows,
                        shape.tiles,
                        0, // LOAD_*, which this kernel does not have
                        matmul_epilogue(args),
                        static_cast<uint32_t>(args.activation),
                        matmul_rows_from(args)};
  dispatch.set_constant(MATMUL_OWN_ROWS_ID, own_rows);
  dispatch.set_params(matmul_params(args));
  bind_matmul(dispatch, args);
  const MatmulExtent all = matmul_extent(args);
  dispatch.groups = {all.groups(shape.rows), (all.tiles + shape.tiles - 1) / shape.tiles, 1};
  estimate_matmul(dispatch, args);
  lowering.emit(std::move(dispatch));
  return {};
}

} // namespace

const KernelVariant<MatmulArgs> matmul_tiled = {
    "tiled", "For any device: more than 8 tokens, tiles in shared memory", runs, lower};

} // namespace pumice
