#include <algorithm>
#include <bit>

#include "kernel/lowering.h"
#include "kernel/matmul/matmul_variants.h"
#include "shaders/matmul/matmul.params.h"

namespace pumice {

namespace {

// Of more rows than a workgroup has, each share of them loads and decodes the weights again. Up to so many,
// that may still take less time than tiles in shared memory.
constexpr uint32_t most_rows = 32;

bool runs(const DeviceProfile& profile, const MatmulArgs& args) {
  return has_subgroup_slices(profile, args) && matmul_extent(args).rows <= most_rows;
}

Status lower(Lowering& lowering, const MatmulArgs& args) {
  const DeviceProfile& profile = lowering.profile();
  // The weights' codes and the sums share the registers.
  const uint32_t with_four = has_few_registers(profile) ? 2 : 4; // rows of four tiles
  const bool wide = args.format.payload_dwords() > 8 || matmul_extent(args).rows > with_four;
  Dispatch dispatch = subgroup_slices_dispatch(profile, args, subgroup_slices(profile, args, wide ? 2 : 4));
  dispatch.kernel = "matmul_subgroup." + kernel_variant(args.format.type);
  // Mantissas save operations for each weight and take one for each row of x.
  const uint32_t codes = fastest_codes(profile.generation);
  const bool many = codes == CODES_MANTISSA && dispatch.constants[MATMUL_ROWS_ID] > 4;
  dispatch.set_constant(MATMUL_CODES_ID, many ? CODES_FIELDS : codes);
  dispatch.set_params(matmul_params(args));
  bind_matmul(dispatch, args);
  estimate_matmul(dispatch, args);
  lowering.emit(std::move(dispatch));
  return {};
}

} // namespace

bool has_subgroup_slices(const DeviceProfile& profile, const MatmulArgs& args) {
  return profile.subgroup >= 8 && profile.subgroup <= profile.most_invocations &&
         args.format.lane_bytes == 16;
}

SubgroupSlices subgroup_slices(const DeviceProfile& profile, const MatmulArgs& args, uint32_t most_tiles) {
  const MatmulExtent all = matmul_extent(args);
  SubgroupSlices shape;
  // A routed block has a power of two of rows.
  const uint32_t most = profile.registers.vector_rows;
  shape.rows = args.routing ? std::min(std::bit_ceil(all.rows), most) : all.even_share(most);
  shape.tiles = most_tiles;
  const uint32_t pair = args.gated ? 2 : 1;
  while (shape.tiles > pair && shape.rows * shape.tiles > profile.registers.vector_sums) shape.tiles /= 2;
  const uint32_t row_groups = all.groups(shape.rows);
  // Nearly two to each core: with one alone it has too few subgroups to begin an instruction in every cycle.
  const uint32_t wanted = profile.cores > 0 ? profile.cores * 7 / 4 : profile.busy_groups;
  while (shape.tiles > pair && row_groups * (all.tiles / shape.tiles) < wanted) shape.tiles /= 2;
  // As many slices as leave some blocks for each: a GPU has more loads under way with more of them. Their
  // number sets the order of a sum, so it must not depend on the rows. A core whose only workgroup this is
  // gets twice as many.
  const uint32_t least_blocks = profile.cpu ? 4 : 2;
  const bool alone = !args.routing && all.tiles / pair < profile.cores;
  shape.invocations = std::min(std::bit_floor(profile.most_invocations),
                               profile.registers.vector_invocations * (alone ? 2 : 1));
  while (shape.invocations > profile.subgroup &&
         args.format.blocks() * 8 < least_blocks * shape.invocations) {
    shape.invocations /= 2;
  }
  return shape;
}

Dispatch subgroup_slices_dispatch(const DeviceProfile& profile, const MatmulArgs& args,
                                  const SubgroupSlices& shape) {
  const MatmulExtent all = matmul_extent(args);
  Dispatch dispatch;
  dispatch.constants = {shape.invocations,
                        shape.rows,
                        shape.tiles,
                        0, // LOAD_*, which these kernels do not have
                        matmul_epilogue(args),
                        static_cast<uint32_t>(args.activation),
                        matmul_rows_from(args)};
  dispatch.set_constant(MATMUL_SUBGROUP_ID, profile.subgroup);
  dispatch.groups = {all.groups(shape.rows), all.tiles / shape.tiles, 1};
  return dispatch;
}

const KernelVariant<MatmulArgs> matmul_subgroup = {
    "subgroup", "For GPUs whose subgroups can shuffle: up to 32 tokens, the lanes share the columns", runs,
    lower};

} // namespace pumice
