#include <algorithm>
#include <optional>

#include "base/align.h"
#include "gpu/kernel_table.h"
#include "kernel/lowering.h"
#include "kernel/matmul/matmul_variants.h"
#include "shaders/matmul/halve_rows.params.h"
#include "shaders/matmul/matmul.params.h"

namespace pumice {

namespace {

// How a workgroup's block of the result (rows by tiles) is divided among its groups. A group is the
// invocations that multiply matrices together: a subgroup, or the whole workgroup.
struct Shape {
  uint32_t rows = 0, tiles = 0;
  uint32_t groups_down = 0, groups_across = 0; // groups that share the rows, and the columns
  uint32_t depth = 2;                          // blocks of 32 columns of x in a pass
  uint32_t group = 0;                          // invocations of one group
  MatrixShape matrix = {};
  uint32_t buffers = 1;      // 2: the next pass is staged while this one is multiplied
  uint32_t most_buffers = 2; // for which there are registers
  uint32_t parts = 1;        // of k, which workgroups share

  uint32_t groups() const { return groups_down * groups_across; }
  uint32_t group_rows() const { return rows / groups_down; }
  uint32_t group_columns() const { return tiles * 8 / groups_across; }
  // Gated tiles come in pairs, so a group's columns are at least two tiles.
  uint32_t strip_columns() const { return std::max(16u, matrix.n); }
  bool divides() const {
    return group_rows() % matrix.m == 0 && group_columns() % strip_columns() == 0 &&
           strip_columns() % matrix.n == 0 && 32 % matrix.k == 0 && matrix.k >= 8;
  }
  // The operands of a pass; later a strip of results of each group.
  uint32_t shared_bytes() const {
    return std::max(buffers * (rows + tiles * 8) * (depth * 4 + 1) * 16,
                    groups() * matrix.m * strip_columns() * 4);
  }
  // Operands of two passes, if they fit, if need be of one block each.
  Shape with_two_buffers(uint32_t most_bytes) const {
    Shape two = *this;
    two.buffers = most_buffers;
    if (two.shared_bytes() > most_bytes) two.depth = 1;
    return two.shared_bytes() <= most_bytes ? two : *this;
  }
  std::array<uint32_t, 3> workgroups(const MatmulArgs& args) const {
    const MatmulExtent all = matmul_extent(args);
    return {all.groups(rows), (all.tiles + tiles - 1) / tiles, parts};
  }
};

// A workgroup has more subgroups where they are narrower, up to `most`: four of 32 invocations, eight of 16.
// Their blocks are as square as possible. With few rows, more of the subgroups divide the tiles. Devices with
// few registers take twice as many for 64 rows. Rows are taken in so many at a time, up to 64; a routed block
// has a power of two.
Shape subgroups_in_square(const DeviceProfile& profile, const MatmulArgs& args, uint32_t most,
                          uint32_t unit) {
  uint32_t groups = std::clamp(128 / profile.subgroup, 4u, most);
  const uint32_t all = std::min(matmul_extent(args).rows, 64u);
  uint32_t rows = args.routing ? all : align(all, unit);
  const bool few_registers = has_few_registers(profile);
  if (few_registers && rows == 48) rows = 64; // 15 and more registers would be spilled (Xe2)
  if (few_registers && rows == 64 && groups * 2 * profile.subgroup <= 256) groups *= 2;
  const uint32_t down = rows < 64 ? groups / 4 : groups > 16 ? 8 : groups > 4 ? 4 : 2;
  const uint32_t depth = few_registers && args.format.type == TensorType::f32 ? 1 : 2;
  return {rows, 8, down, groups / down, depth, profile.subgroup};
}

// Sums of an invocation in large blocks; 0: there are no registers for any. Of Intel's GPUs only Xe2 has
// subgroups of 16 and registers for them, by what its compiler spills.
uint32_t most_sums(const DeviceProfile& profile) {
  if (!has_few_registers(profile)) return profile.registers.matrix_sums;
  return profile.generation == GpuGeneration::intel_xe2 ? 32 : 0;
}

// Shared memory that a workgroup may have: as much as every device of this tier, or more where a core still
// has room for two.
uint32_t most_shared_bytes(const DeviceProfile& profile) {
  return std::clamp(profile.shared_bytes, 32768u, 49152u) - 768;
}

// Of many rows, larger blocks: each weight is loaded and decoded for 128 rows. The first of which the core
// with the most has no more to multiply than of smaller ones, or up to a quarter more: it stages less for
// each. Or none.
std::optional<Shape> large_blocks(const DeviceProfile& profile, const MatmulArgs& args, uint32_t parts) {
  const uint32_t most = most_sums(profile);
  if (most == 0 || matmul_extent(args).rows < 128) return {};
  const auto busy = [&](const Shape& shape, uint32_t smaller) {
    const std::array<uint32_t, 3> groups = shape.workgroups(args);
    const uint64_t all = uint64_t{groups[0]} * groups[1] * parts;
    if (profile.cores == 0) return all >= profile.busy_groups;
    const auto turns = [&](uint64_t blocks) { return (blocks + profile.cores - 1) / profile.cores; };
    return turns(all) * smaller * 4 <= turns(all * smaller) * 5;
  };
  if (has_few_registers(profile)) {
    // More invocations, and registers for a second pass only where weights are copied as they are.
    const uint32_t groups = 128 * 128 / most / profile.subgroup;
    Shape shape = {128, 16, 8, groups / 8, 1, profile.subgroup};
    shape.most_buffers = args.format.type == TensorType::f16 ? 2 : 1;
    const bool runs = args.format.payload_dwords() <= 16 &&
                      groups * profile.subgroup <= profile.most_invocations &&
                      shape.shared_bytes() <= std::max(profile.shared_bytes, 32000u);
    return runs && busy(shape, 4) ? std::optional(shape) : std::nullopt;
  }
  for (const uint32_t tiles : {16u, 8u}) {
    const uint32_t groups = tiles == 16 ? 8 : std::clamp(256 / profile.subgroup, 4u, 8u);
    const Shape shape = {128, tiles, 4, groups / 4, 2, profile.subgroup};
    const uint32_t sums = shape.group_rows() * shape.group_columns() / profile.subgroup;
    const bool runs = sums <= most && groups * profile.subgroup <= profile.most_invocations &&
                      shape.shared_bytes() <= std::max(profile.shared_bytes, 32000u);
    if (runs && busy(shape, tiles == 16 ? 4 : 2)) return shape; // blocks of 64 x 64
  }
  return {};
}

// Takes the largest matrices of the device that divide a subgroup's block and keep the kernel within the
// shared memory that every device of this tier has. `parts`: of k.
std::optional<Shape> fixed_shape(const DeviceProfile& profile, const MatmulArgs& args, uint32_t parts = 1) {
  std::optional<Shape> best;
  const auto size = [](const MatrixShape& matrix) { return matrix.m * matrix.n * matrix.k; };
  const auto take = [&](Shape shape) {
    for (const MatrixShape& matrix : profile.matrix_shapes) {
      shape.matrix = matrix;
      if (!shape.divides() || shape.shared_bytes() > 32000) continue;
      if (!best || size(matrix) > size(best->matrix)) best = shape;
    }
  };
  // Other Intel GPUs than Xe2 spill registers for blocks of 16 rows, whose few invocations decode more each.
  const uint32_t unit =
      has_few_registers(profile) && profile.generation != GpuGeneration::intel_xe2 ? 32 : 16;
  for (uint32_t most : {16u, 8u, 4u}) take(subgroups_in_square(profile, args, most, unit));
  if (const std::optional<Shape> large = large_blocks(profile, args, parts); large && best) {
    // Of the same matrices: their size is what a row's bits depend on.
    Shape shape = *large;
    shape.matrix = best->matrix;
    if (shape.divides()) best = shape;
  }
  if (!best) return {};
  best->parts = parts;
  return best->with_two_buffers(most_shared_bytes(profile));
}

uint32_t cores_of(const DeviceProfile& profile) {
  return profile.cores > 0 ? profile.cores : profile.busy_groups;
}

// How k is divided where blocks of 128 columns and all rows of a short prompt are too few for the cores. By
// the matrix and the device alone, so that a row's bits depend on how many rows are beside it only where the
// variant does (split_runs).
struct DividedK {
  uint32_t parts = 1, blocks = 0; // blocks of 32 columns of a part
};

DividedK divide_k(const DeviceProfile& profile, const MatmulArgs& args) {
  constexpr uint32_t most = 8, least_blocks = 2;
  const uint32_t blocks = args.format.blocks(), across = (args.weight.tiles + 15) / 16;
  const uint32_t wanted = std::clamp(std::min(cores_of(profile) / across, blocks / least_blocks), 1u, most);
  const uint32_t part = ((blocks + wanted - 1) / wanted + 1) / 2 * 2; // an even number: no half passes
  return {(blocks + part - 1) / part, part};
}

// Takes matrices as wide as a group's block. A workgroup that multiplies them together takes up to 128 rows,
// as many as leave the device enough workgroups. Both tiers use one shader, whose sizes and scope are
// specialisation constants. The decoding loads of VK_NV_cooperative_matrix2 are not used: no software driver
// has them, so they could not be tested.
std::optional<Shape> free_shape(const DeviceProfile& profile, const MatmulArgs& args) {
  if (!profile.cm2) return {};
  const uint32_t rows = matmul_extent(args).rows;
  if (profile.cm2_workgroup == 0) {
    // Matrices 16 high at least.
    Shape shape = subgroups_in_square(profile, args, args.routing ? std::min(8u, rows / 4) : 8, 32);
    shape.matrix = {std::min(32u, shape.rows) / shape.groups_down, shape.group_columns(), 16};
    return shape;
  }
  if (args.routing && rows < 32) return {};
  Shape shape = {128, 8, 1, 1, 2, profile.cm2_workgroup};
  const std::array<uint32_t, 3> groups = shape.workgroups(args);
  if (rows <= 64 || groups[0] * groups[1] < profile.busy_groups) shape.rows = 64;
  if (rows <= 32) shape.rows = 32;
  shape.matrix = {std::min(shape.rows, 64u), 64, 16};
  return shape;
}

// Of the sums that the parts of k leave.
uint64_t parts_bytes(const MatmulArgs& args, uint32_t parts) {
  return uint64_t{parts} * args.result.rows * args.weight.tiles * 8 * sizeof(float);
}

// A CPU driver may offer these matrices without hardware for them.
bool can_run(const DeviceProfile& profile, const MatmulArgs& args) {
  return !profile.cpu8 && profile.subgroup > 0 && matmul_extent(args).rows > few_rows &&
         find_kernel("matmul.cm." + kernel_variant(args.format.type));
}

// The halves of x, and where in their buffer the rows' factors begin, in quads.
struct Halves {
  BufferRef buffer;
  uint32_t factors = 0;
};

Halves halve_rows(Lowering& lowering, const MatmulArgs& args) {
  const uint32_t blocks = args.format.blocks();
  const uint64_t quads = uint64_t{args.x.rows} * blocks * HALVES_BLOCK_QUADS;
  const Halves halves = {lowering.temporary((quads + args.x.rows) * 16), static_cast<uint32_t>(quads)};
  Dispatch dispatch;
  dispatch.kernel = "halve_rows";
  dispatch.constants = {128};
  HalveRowsParams params = {};
  params.blocks = blocks;
  params.x_stride = args.x.stride;
  params.rows_kind = args.x.rows_kind;
  params.rows_each = rows_each(args);
  params.factors = halves.factors;
  if (args.row_scale) {
    params.scale_columns = args.row_scale->columns;
    params.scale_sums = args.row_scale->sums_at;
    params.scale_eps = args.row_scale->eps;
  }
  dispatch.set_params(params);
  dispatch.bind(HALVE_STEP, args.step, Access::read);
  dispatch.bind(HALVE_X, args.x.buffer, Access::read);
  dispatch.bind(HALVE_HALVES, halves.buffer, Access::write);
  dispatch.groups = {args.x.rows, 1, 1};
  dispatch.bytes = 6.0 * args.x.rows * args.format.columns;
  lowering.emit(std::move(dispatch));
  return halves;
}

// Adds up the parts of k, `sums`, and finishes the product.
void add_parts(Lowering& lowering, const MatmulArgs& args, const MatmulParams& params, const BufferRef& sums,
               const Halves& halves) {
  const uint32_t invocations = 128, columns = args.weight.tiles * 8 / (args.gated ? 2 : 1);
  Dispatch dispatch;
  dispatch.kernel = "add_parts";
  dispatch.constants = {invocations};
  dispatch.set_constant(MATMUL_EPILOGUE_ID, matmul_epilogue(args));
  dispatch.set_constant(MATMUL_ACTIVATION_ID, static_cast<uint32_t>(args.activation));
  dispatch.set_constant(MATMUL_ROUTED_ID, matmul_rows_from(args));
  dispatch.set_params(params);
  dispatch.bind(MATMUL_STEP, args.step, Access::read);
  dispatch.bind(MATMUL_X, sums, Access::read);
  dispatch.bind(MATMUL_HALVES, halves.buffer, Access::read);
  if (args.bias) dispatch.bind(MATMUL_BIAS, *args.bias, Access::read);
  if (args.residual) dispatch.bind(MATMUL_RESIDUAL, args.residual->buffer, Access::read);
  dispatch.bind(MATMUL_RESULT, args.result.buffer, Access::write);
  dispatch.groups = {args.result.rows, (columns + invocations - 1) / invocations, 1};
  dispatch.bytes = static_cast<double>(sums.bytes) + 4.0 * args.result.rows * columns;
  lowering.emit(std::move(dispatch));
}

void emit(Lowering& lowering, const MatmulArgs& args, const Shape& shape, uint32_t scope) {
  const Halves halves = halve_rows(lowering, args);
  MatmulParams params = matmul_params(args);
  params.factors = halves.factors;
  const bool split = shape.parts > 1;
  MatmulArgs own = args; // what the matrices' kernel does of it
  if (split) {
    params.part_blocks = divide_k(lowering.profile(), args).blocks;
    params.parts = shape.parts;
    own.bias = {};
    own.residual = {};
    own.row_scale = {};
    own.next_norm = {};
    own.activation = Activation::none;
    own.gated = false;
    own.result.buffer = lowering.temporary(parts_bytes(args, shape.parts));
  }
  Dispatch dispatch;
  dispatch.kernel = "matmul.cm." + kernel_variant(args.format.type);
  dispatch.constants = {shape.groups() * shape.group,
                        shape.rows,
                        shape.tiles,
                        0, // LOAD_*, which this kernel does not have
                        matmul_epilogue(own),
                        static_cast<uint32_t>(own.activation),
                        matmul_rows_from(args)};
  dispatch.set_constant(MATMUL_M_ID, shape.matrix.m);
  dispatch.set_constant(MATMUL_N_ID, shape.matrix.n);
  dispatch.set_constant(MATMUL_K_ID, shape.matrix.k);
  dispatch.set_constant(MATMUL_SCOPE_ID, scope);
  dispatch.set_constant(MATMUL_GROUP_ID, shape.group);
  dispatch.set_constant(MATMUL_GROUPS_DOWN_ID, shape.groups_down);
  dispatch.set_constant(MATMUL_DEPTH_ID, shape.depth);
  dispatch.set_constant(MATMUL_BUFFERS_ID, shape.buffers);
  dispatch.set_constant(MATMUL_STAGED_CODES_ID, fastest_codes(lowering.profile().generation));
  if (split) dispatch.set_constant(MATMUL_SPLIT_ID, 1);
  dispatch.set_params(params);
  bind_matmul(dispatch, own);
  dispatch.bind(MATMUL_HALVES, halves.buffer, Access::read);
  dispatch.groups = shape.workgroups(own);
  estimate_matmul(dispatch, own);
  if (split) dispatch.bytes += static_cast<double>(own.result.buffer.bytes) * (shape.parts - 1) / shape.parts;
  lowering.emit(std::move(dispatch));
  if (split) add_parts(lowering, args, params, own.result.buffer, halves);
}

bool fixed_runs(const DeviceProfile& profile, const MatmulArgs& args) {
  return can_run(profile, args) && fixed_shape(profile, args);
}

Status lower_fixed(Lowering& lowering, const MatmulArgs& args) {
  emit(lowering, args, *fixed_shape(lowering.profile(), args), MATRIX_OF_SUBGROUP);
  return {};
}

// Only where the whole product is done in few turns of the cores, the last of which leaves many idle: "cm"
// takes the other products of a class that this was measured for.
bool split_runs(const DeviceProfile& profile, const MatmulArgs& args) {
  if (args.routing || !fixed_runs(profile, args)) return false;
  const uint32_t parts = divide_k(profile, args).parts;
  if (parts == 1 || parts_bytes(args, parts) > profile.range_bytes) return false;
  const std::array<uint32_t, 3> whole = fixed_shape(profile, args)->workgroups(args);
  return uint64_t{whole[0]} * whole[1] < uint64_t{3} * cores_of(profile);
}

Status lower_split(Lowering& lowering, const MatmulArgs& args) {
  const DeviceProfile& profile = lowering.profile();
  emit(lowering, args, *fixed_shape(profile, args, divide_k(profile, args).parts), MATRIX_OF_SUBGROUP);
  return {};
}

bool free_runs(const DeviceProfile& profile, const MatmulArgs& args) {
  return can_run(profile, args) && free_shape(profile, args);
}

Status lower_free(Lowering& lowering, const MatmulArgs& args) {
  const DeviceProfile& profile = lowering.profile();
  emit(lowering, args, *free_shape(profile, args),
       profile.cm2_workgroup ? MATRIX_OF_WORKGROUP : MATRIX_OF_SUBGROUP);
  return {};
}

} // namespace

const KernelVariant<MatmulArgs> matmul_cm = {
    "cm", "For GPUs with VK_KHR_cooperative_matrix: 9 tokens and more, rounded to 16 bits", fixed_runs,
    lower_fixed, true};
const KernelVariant<MatmulArgs> matmul_cm_split = {
    "cm-split", "For GPUs, as cm: narrow matrices, whose columns (k) several workgroups share",
    split_runs, lower_split,
    true,       false,
    "cm"};
const KernelVariant<MatmulArgs> matmul_cm2 = {
    "cm2", "For GPUs with VK_NV_cooperative_matrix2: as cm, the matrices as large as a workgroup can take",
    free_runs, lower_free, true};

} // namespace pumice
