#include <algorithm>
#include <optional>

#include "gpu/kernel_table.h"
#include "kernel/attention/attention_variants.h"
#include "kernel/lowering.h"

namespace pumice {

namespace {

constexpr uint32_t keys = ATTENTION_MATRIX_KEYS;

constexpr uint32_t most_invocations = 256; // of a workgroup, which every device of this tier allows

uint32_t rounded_up(uint32_t value, uint32_t unit) {
  return (value + unit - 1) / unit * unit;
}

// How many queries a workgroup takes, and how the matrices of a tile are divided among its subgroups.
struct Shape {
  uint32_t rows = 0;   // rows of a tile; heads * tokens of them are used
  uint32_t groups = 0; // subgroups
  MatrixShape matrix;
  AttentionShape queries;

  uint32_t strips() const { return rows / matrix.m; }
  uint32_t groups_down() const { return std::min(groups, strips()); }

  bool divides() const {
    return rows % matrix.m == 0 && keys % matrix.n == 0 && keys % matrix.k == 0 && matrix.n % 8 == 0 &&
           matrix.k % 8 == 0 && strips() % groups_down() == 0 && groups % groups_down() == 0;
  }
  // Sums of the values that an invocation holds.
  uint32_t sums(const CacheLayout& layout, uint32_t subgroup) const {
    const uint32_t columns = rounded_up(layout.head_dim_padded(), std::max(matrix.n, matrix.k)) / matrix.n;
    const uint32_t across = groups / groups_down();
    return strips() / groups_down() * ((columns + across - 1) / across) * matrix.m * matrix.n / subgroup;
  }
  // Shared memory of the kernel: the queries, a tile's keys or values, its scores and weights, and a few
  // numbers for each row and token.
  uint32_t shared_bytes(const CacheLayout& layout) const {
    const uint32_t dim = rounded_up(layout.head_dim_padded(), std::max(matrix.n, matrix.k));
    const uint32_t scores = std::max(rows * (keys + 4), groups * matrix.m * matrix.n);
    return (rows + keys) * (dim / 2 + 4) * 4 + scores * 4 + rows * (keys / 2 + 4) * 4 + rows * 16 +
           queries.tokens * 28 + 4;
  }
};

// All heads of a group, or the heads divided as evenly as possible among several workgroups.
AttentionShape fold(const AttentionArgs& args, uint32_t rows) {
  const uint32_t group = args.heads / args.cache.layout.kv_heads;
  AttentionShape shape;
  shape.group_workgroups = (group + rows - 1) / rows;
  shape.heads = (group + shape.group_workgroups - 1) / shape.group_workgroups;
  shape.group_workgroups = (group + shape.heads - 1) / shape.heads;
  shape.tokens = rows / shape.heads;
  return shape;
}

// Takes the largest matrices that the device has, and as many rows as fit the shared memory that every device
// of this tier has. It takes fewer rows where the device would otherwise have too few workgroups. Of these
// only the matrices' size changes a row's bits, and that is the same for all steps. Devices with narrow
// subgroups use more subgroups, up to eight, and those with few registers twice or four times as many.
std::optional<Shape> choose_shape(const DeviceProfile& profile, const AttentionArgs& args) {
  std::optional<Shape> best;
  const auto size = [](const MatrixShape& matrix) { return matrix.m * matrix.n * matrix.k; };
  const auto workgroups = [&](const Shape& shape) {
    return (args.q.rows + shape.queries.tokens - 1) / shape.queries.tokens * shape.queries.group_workgroups *
           args.cache.layout.kv_heads;
  };
  for (const MatrixShape& matrix : profile.matrix_shapes) {
    if (best && size(matrix) <= size(best->matrix)) continue;
    std::optional<Shape> most;
    for (uint32_t rows : {64u, 32u, 16u}) {
      Shape shape = {rows, std::clamp(128 / profile.subgroup, 4u, 8u), matrix, fold(args, rows)};
      if (rows % matrix.m) continue;
      while (shape.sums(args.cache.layout, profile.subgroup) > profile.registers.matrix_sums &&
             shape.groups * 2 * profile.subgroup <= most_invocations)
        shape.groups *= 2;
      if (!shape.divides() || shape.shared_bytes(args.cache.layout) > 32000) continue;
      if (most && (rows < 32 || workgroups(*most) >= profile.busy_groups)) break;
      most = shape;
    }
    if (most) best = most;
  }
  return best;
}

std::string kernel_name(const AttentionArgs& args) {
  return std::string("attention.cm.") + to_string(args.cache.layout.type);
}

// Not where the sums are kept: attention weights must be exact. Not on CPU drivers: they only emulate
// matrices.
bool runs(const DeviceProfile& profile, const AttentionArgs& args) {
  return !profile.cpu8 && profile.subgroup >= 8 && args.q.rows >= 16 && args.one_sequence && !args.sums &&
         attention_block(profile, args.cache.layout) % keys == 0 && find_kernel(kernel_name(args)) &&
         choose_shape(profile, args);
}

Dispatch prepare(const DeviceProfile& profile, const AttentionArgs& args, const Shape& shape) {
  Dispatch dispatch = prepare_attention(args, shape.groups * profile.subgroup);
  dispatch.kernel = kernel_name(args);
  dispatch.set_constant(ATTENTION_HEADS_ID, shape.queries.heads);
  dispatch.set_constant(ATTENTION_TOKENS_ID, shape.queries.tokens);
  dispatch.set_constant(ATTENTION_ROWS_ID, shape.rows);
  dispatch.set_constant(ATTENTION_GROUP_ID, profile.subgroup);
  dispatch.set_constant(ATTENTION_M_ID, shape.matrix.m);
  dispatch.set_constant(ATTENTION_N_ID, shape.matrix.n);
  dispatch.set_constant(ATTENTION_K_ID, shape.matrix.k);
  finish_attention(dispatch, args, shape.queries);
  return dispatch;
}

Status lower(Lowering& lowering, const AttentionArgs& args) {
  const AttentionArgs stored = store_first(lowering, args);
  const DeviceProfile& profile = lowering.profile();
  const Shape shape = *choose_shape(profile, stored);
  emit_parts(lowering, stored, [&](const AttentionArgs& part) { return prepare(profile, part, shape); });
  return {};
}

} // namespace

const KernelVariant<AttentionArgs> attention_cm = {
    "cm", "For GPUs with VK_KHR_cooperative_matrix: 16 tokens and more, rounded to 16 bits", runs, lower,
    true};

} // namespace pumice
