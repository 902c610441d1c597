#include "gpu/kernel_table.h"
#include "kernel/lowering.h"
#include "kernel/matmul/matmul_variants.h"
#include "shaders/matmul/matmul.params.h"
#include "shaders/matmul/quantize_rows.params.h"

namespace pumice {

namespace {

std::string kernel_name(const MatmulArgs& args) {
  return "matmul.dot." + kernel_variant(args.format.type);
}

// There is no kernel for types whose codes are not the numbers themselves, and none at all if the build had
// no shader compiler for this tier.
bool runs(const DeviceProfile& profile, const MatmulArgs& args) {
  return profile.dot && has_subgroup_slices(profile, args) && find_kernel(kernel_name(args));
}

BufferRef quantize_rows(Lowering& lowering, const MatmulArgs& args) {
  const uint32_t blocks = args.format.blocks(), invocations = 128;
  const uint64_t bytes = uint64_t{args.x.rows} * blocks * CODES_QUADS * 16;
  const BufferRef codes = lowering.temporary(bytes);
  Dispatch dispatch;
  dispatch.kernel = "quantize_rows";
  dispatch.constants = {invocations, lowering.profile().subgroup};
  dispatch.set_params(QuantizeRowsParams{blocks, args.x.stride, args.x.rows_kind, rows_each(args)});
  dispatch.bind(QUANTIZE_STEP, args.step, Access::read);
  dispatch.bind(QUANTIZE_X, args.x.buffer, Access::read);
  dispatch.bind(QUANTIZE_CODES, codes, Access::write);
  dispatch.groups = {(blocks * 8 + invocations - 1) / invocations, args.x.rows, 1};
  dispatch.bytes = 4.0 * args.x.rows * args.format.columns + static_cast<double>(bytes);
  lowering.emit(std::move(dispatch));
  return codes;
}

// Where a workgroup takes all rows there are, and has memory for their codes, rounding them again in each one
// takes less time than a launch before.
bool rounds_itself(const DeviceProfile& profile, const MatmulArgs& args, const SubgroupSlices& shape) {
  const uint64_t codes = uint64_t{shape.rows} * args.format.blocks() * CODES_QUADS * 16;
  const uint64_t sums = uint64_t{shape.rows} * shape.tiles * shape.invocations / profile.subgroup * 8 * 4;
  return !profile.cpu && matmul_extent(args).rows <= shape.rows && codes + sums <= profile.shared_bytes;
}

Status lower(Lowering& lowering, const MatmulArgs& args) {
  const DeviceProfile& profile = lowering.profile();
  // A single row gains nothing from sharing what is loaded of x, and has more loads under way in more
  // workgroups.
  const uint32_t most_tiles = matmul_extent(args).rows == 1 || has_few_registers(profile) ? 2 : 4;
  const SubgroupSlices shape = subgroup_slices(profile, args, most_tiles);
  const bool itself = rounds_itself(profile, args, shape);
  const BufferRef codes = itself ? args.x.buffer : quantize_rows(lowering, args);
  Dispatch dispatch = subgroup_slices_dispatch(profile, args, shape);
  if (itself) dispatch.set_constant(MATMUL_OWN_BLOCKS_ID, args.format.blocks());
  dispatch.kernel = kernel_name(args);
  dispatch.set_params(matmul_params(args));
  bind_matmul(dispatch, args);
  dispatch.bind(MATMUL_CODES, codes, Access::read);
  estimate_matmul(dispatch, args);
  lowering.emit(std::move(dispatch));
  return {};
}

} // namespace

const KernelVariant<MatmulArgs> matmul_dot = {
    "dot", "For devices with integer dot products: quantised weights, activations rounded to 8 bits", runs,
    lower, true};

} // namespace pumice
