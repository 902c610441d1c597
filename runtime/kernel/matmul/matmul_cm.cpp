#include <algorithm>
#include <optional>

#include "gpu/kernel_table.h"
#include "kernel/lowering.h"
#include "kernel/matmul/matmul_variants.h"
#include "shaders/matmul/matmul.params.h"

namespace pumice {

namespace {

// How a workgroup's block of the result (some rows by eight tiles) is divided among its groups. A group is
// the invocations that multiply matrices together: a subgroup, or the whole workgroup.
struct Shape {
  uint32_t rows = 0;
  uint32_t groups_down = 0, groups_across = 0; // groups that share the rows, and the columns
  uint32_t group = 0;                          // invocations of one group
  MatrixShape matrix;

  uint32_t group_rows() const { return rows / groups_down; }
  uint32_t group_columns() const { return tiles * 8 / groups_across; }
  // Bytes of shared memory: two blocks of each operand, and a row of matrices for each group.
  uint32_t shared_bytes() const {
    return (rows + tiles * 8) * 36 * 4 + groups_down * matrix.m * tiles * 8 * 4;
  }

  static constexpr uint32_t tiles = 8;
};

// A workgroup has more subgroups where they are narrower, up to `most`: four of 32 invocations, eight of 16.
// Their blocks are as square as possible, but at least two tiles wide, because gated tiles come in pairs.
// With few rows, more of the subgroups divide the tiles.
Shape subgroups_in_square(const DeviceProfile& profile, const MatmulArgs& args, uint32_t most) {
  const uint32_t groups = std::clamp(128 / profile.subgroup, 4u, most);
  const bool few = args.result.rows <= 32;
  const uint32_t down = few ? groups / 4 : groups > 4 ? 4 : 2;
  return {few ? 32u : 64u, down, groups / down, profile.subgroup, {}};
}

// Takes the largest matrices of the device that divide a subgroup's block and keep the kernel within the
// shared memory that every device of this tier has.
std::optional<Shape> fixed_shape(const DeviceProfile& profile, const MatmulArgs& args) {
  std::optional<Shape> best;
  const auto size = [](const MatrixShape& matrix) { return matrix.m * matrix.n * matrix.k; };
  for (uint32_t most : {16u, 8u, 4u}) {
    for (const MatrixShape& matrix : profile.matrix_shapes) {
      Shape shape = subgroups_in_square(profile, args, most);
      shape.matrix = matrix;
      if (shape.group_rows() % matrix.m || shape.group_columns() % matrix.n || 32 % matrix.k || matrix.n % 8)
        continue;
      if (shape.shared_bytes() > 32000) continue;
      if (!best || size(matrix) > size(best->matrix)) best = shape;
    }
  }
  return best;
}

// Takes matrices as wide as a group's block, and as high as the same shared memory allows. Both tiers use one
// shader, whose sizes and scope are specialisation constants. The decoding loads of VK_NV_cooperative_matrix2
// are not used: no software driver has them, so they could not be tested.
std::optional<Shape> free_shape(const DeviceProfile& profile, const MatmulArgs& args) {
  if (!profile.cm2) return {};
  Shape shape = subgroups_in_square(profile, args, 8); // matrices 16 high at least
  if (profile.cm2_workgroup > 0) {
    shape.groups_down = shape.groups_across = 1;
    shape.group = profile.cm2_workgroup;
  }
  shape.matrix = {32 / shape.groups_down, shape.group_columns(), 16};
  return shape;
}

// A CPU driver may offer these matrices without hardware for them.
bool can_run(const DeviceProfile& profile, const MatmulArgs& args) {
  return !profile.cpu8 && profile.subgroup > 0 && args.result.rows >= 16 && !args.routing &&
         find_kernel("matmul.cm." + kernel_variant(args.format.type));
}

void emit(Lowering& lowering, const MatmulArgs& args, const Shape& shape, uint32_t scope) {
  Dispatch dispatch;
  dispatch.kernel = "matmul.cm." + kernel_variant(args.format.type);
  dispatch.constants = {shape.groups_down * shape.groups_across * shape.group,
                        shape.rows,
                        Shape::tiles,
                        0, // LOAD_*, which this kernel does not have
                        matmul_epilogue(args),
                        static_cast<uint32_t>(args.activation),
                        matmul_rows_from(args)};
  dispatch.set_constant(MATMUL_M_ID, shape.matrix.m);
  dispatch.set_constant(MATMUL_N_ID, shape.matrix.n);
  dispatch.set_constant(MATMUL_K_ID, shape.matrix.k);
  dispatch.set_constant(MATMUL_SCOPE_ID, scope);
  dispatch.set_constant(MATMUL_GROUP_ID, shape.group);
  dispatch.set_constant(MATMUL_GROUPS_DOWN_ID, shape.groups_down);
  dispatch.set_params(matmul_params(args));
  bind_matmul(dispatch, args);
  dispatch.groups = {(args.result.rows + shape.rows - 1) / shape.rows,
                     (args.weight.tiles + Shape::tiles - 1) / Shape::tiles, 1};
  estimate_matmul(dispatch, args);
  lowering.emit(std::move(dispatch));
}

bool fixed_runs(const DeviceProfile& profile, const MatmulArgs& args) {
  return can_run(profile, args) && fixed_shape(profile, args);
}

Status lower_fixed(Lowering& lowering, const MatmulArgs& args) {
  emit(lowering, args, *fixed_shape(lowering.profile(), args), MATRIX_OF_SUBGROUP);
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
    "cm", "For GPUs with VK_KHR_cooperative_matrix: 16 tokens and more, rounded to 16 bits", fixed_runs,
    lower_fixed, true};
const KernelVariant<MatmulArgs> matmul_cm2 = {
    "cm2", "For GPUs with VK_NV_cooperative_matrix2: as cm, the matrices as large as a workgroup can take",
    free_runs, lower_free, true};

} // namespace pumice
