#include <algorithm>

#include "kernel/lowering.h"
#include "kernel/matmul/matmul_variants.h"
#include "shaders/matmul/matmul.params.h"

namespace pumice {

namespace {

bool runs(const DeviceProfile&, const MatmulArgs&) {
  return true;
}

Status lower(Lowering& lowering, const MatmulArgs& args) {
  const MatmulExtent all = matmul_extent(args);
  const uint32_t tiles = args.gated ? 2 : 1;
  uint32_t rows = all.rows >= 8 ? 8 / tiles : all.rows > 1 ? 4 : 1;
  rows = std::min(rows, lowering.profile().registers.vector_rows);
  // CPU drivers were a tenth slower with eight slots of a mixture.
  if (args.routing) rows = std::min(rows, lowering.profile().cpu ? std::min(all.rows, 4u) : all.rows);
  Dispatch dispatch;
  dispatch.kernel = "matmul_portable." + kernel_variant(args.format.type);
  dispatch.constants = {lowering.profile().workgroup,
                        rows,
                        tiles,
                        0, // LOAD_*, which this kernel does not have
                        matmul_epilogue(args),
                        static_cast<uint32_t>(args.activation),
                        matmul_rows_from(args)};
  dispatch.set_constant(MATMUL_LANE_BYTES_ID, args.format.lane_bytes);
  dispatch.set_params(matmul_params(args));
  bind_matmul(dispatch, args);
  dispatch.groups = {all.groups(rows), all.tiles / tiles, 1};
  estimate_matmul(dispatch, args);
  lowering.emit(std::move(dispatch));
  return {};
}

} // namespace

const KernelVariant<MatmulArgs> matmul_portable = {.name = "portable",
                                                   .summary = "For any device: the plain kernel",
                                                   .runs = runs,
                                                   .lower = lower,
                                                   .for_cpus = true};

} // namespace pumice
