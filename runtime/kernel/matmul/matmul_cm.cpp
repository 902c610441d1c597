#include <algorithm>
#include <optional>

#include "gpu/kernel_table.h"
#include "kernel/lowering.h"
#include "kernel/matmul/matmul_variants.h"
#include "shaders/matmul/matmul.params.h"

namespace pumice {

namespace {

// How a workgroup's part of the product, some rows and eight tiles, is divided among the groups of
// invocations that multiply matrices: subgroups, or the workgroup itself.
struct Shape {
  uint32_t rows = 0;
  uint32_t row_parts = 0, column_parts = 0; // groups
  uint32_t group = 0;                       // invocations of one
  MatrixShape matrix;

  uint32_t part_rows() const { return rows / row_parts; }
  uint32_t part_columns() const { return tiles * 8 / column_parts; }
  // What the kernel needs: both operands, two blocks deep, and a row of matrices of each group.
  uint32_t shared_bytes() const { return (rows + tiles * 8) * 36 * 4 + row_parts * matrix.m * tiles * 8 * 4; }

  static constexpr uint32_t tiles = 8;
};

// Narrow subgroups make up for it by their number, up to `most`: four of 32 invocations, eight of 16. As
// square as can be, but two tiles wide at least, for gated ones come in pairs; few rows leave more of the
// subgroups for the tiles.
Shape subgroups_in_square(const DeviceProfile& profile, const MatmulArgs& args, uint32_t most) {
  const uint32_t groups = std::clamp(128 / profile.subgroup, 4u, most);
  const bool few = args.result.rows <= 32;
  const uint32_t across = few || groups > 4 ? 4 : 2;
  return {few ? 32u : 64u, groups / across, across, profile.subgroup, {}};
}

// With the largest matrices that the device has, that divide a subgroup's part and leave the kernel within
// the shared memory that every device of this tier has.
std::optional<Shape> fixed_shape(const DeviceProfile& profile, const MatmulArgs& args) {
  std::optional<Shape> best;
  const auto size = [](const MatrixShape& matrix) { return matrix.m * matrix.n * matrix.k; };
  for (uint32_t most : {16u, 8u, 4u}) {
    for (const MatrixShape& matrix : profile.matrix_shapes) {
      Shape shape = subgroups_in_square(profile, args, most);
      shape.matrix = matrix;
      if (shape.part_rows() % matrix.m || shape.part_columns() % matrix.n || 32 % matrix.k || matrix.n % 8)
        continue;
      if (shape.shared_bytes() > 32000) continue;
      if (!best || size(matrix) > size(best->matrix)) best = shape;
    }
  }
  return best;
}

// With matrices as wide as a group's part, and as high as leaves the kernel within as much shared memory.
// Both tiers are one shader, whose sizes and scope are constants. The loads that decode on their way, which
// VK_NV_cooperative_matrix2 has too, are left alone: no software driver has them to be tested with.
std::optional<Shape> free_shape(const DeviceProfile& profile, const MatmulArgs& args) {
  if (!profile.cm2) return {};
  Shape shape = subgroups_in_square(profile, args, 8); // matrices 16 high at least
  if (profile.cm2_workgroup > 0) {
    shape.row_parts = shape.column_parts = 1;
    shape.group = profile.cm2_workgroup;
  }
  shape.matrix = {32 / shape.row_parts, shape.part_columns(), 16};
  return shape;
}

// A CPU driver has such matrices without hardware behind them.
bool can_run(const DeviceProfile& profile, const MatmulArgs& args) {
  return !profile.cpu8 && profile.subgroup > 0 && args.result.rows >= 16 && !args.routing &&
         find_kernel("matmul.cm." + kernel_variant(args.format.type));
}

void emit(Lowering& lowering, const MatmulArgs& args, const Shape& shape, uint32_t scope) {
  Dispatch dispatch;
  dispatch.kernel = "matmul.cm." + kernel_variant(args.format.type);
  dispatch.constants = {shape.row_parts * shape.column_parts * shape.group,
                        shape.rows,
                        Shape::tiles,
                        0, // LOAD_*, which it has not
                        matmul_epilogue(args),
                        static_cast<uint32_t>(args.activation),
                        matmul_rows_from(args)};
  dispatch.set_constant(MATMUL_M_ID, shape.matrix.m);
  dispatch.set_constant(MATMUL_N_ID, shape.matrix.n);
  dispatch.set_constant(MATMUL_K_ID, shape.matrix.k);
  dispatch.set_constant(MATMUL_SCOPE_ID, scope);
  dispatch.set_constant(MATMUL_GROUP_ID, shape.group);
  dispatch.set_constant(MATMUL_GROUPS_DOWN_ID, shape.row_parts);
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
