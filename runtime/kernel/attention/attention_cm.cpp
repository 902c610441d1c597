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
  bool held = false;  // the queries are kept in registers
  bool apart = false; // a tile's keys and values have memory of their own

  uint32_t strips() const { return rows / matrix.m; }
  uint32_t groups_down() const { return std::min(groups, strips()); }
  uint32_t dim(const CacheLayout& layout) const {
    return rounded_up(layout.head_dim_padded(), std::max(matrix.n, matrix.k));
  }

  // An invocation has a part of one row, of at least four positions.
  bool divides(uint32_t subgroup) const {
    const uint32_t invocations = groups * subgroup;
    return rows % matrix.m == 0 && keys % matrix.n == 0 && keys % matrix.k == 0 && matrix.n % 8 == 0 &&
           matrix.k % 8 == 0 && strips() % groups_down() == 0 && groups % groups_down() == 0 &&
           invocations >= rows && invocations <= keys / 4 * rows;
  }
  // Sums of the values that an invocation holds.
  uint32_t sums(const CacheLayout& layout, uint32_t subgroup) const {
    const uint32_t columns = dim(layout) / matrix.n, across = groups / groups_down();
    return strips() / groups_down() * ((columns + across - 1) / across) * matrix.m * matrix.n / subgroup;
  }
  // Numbers of queries that it holds, if it does.
  uint32_t held_queries(const CacheLayout& layout, uint32_t subgroup) const {
    return strips() / groups_down() * matrix.m * dim(layout) / subgroup;
  }
  // Shared memory of the kernel: the queries, a tile's keys and values, its scores, and a few numbers for
  // each row, token and subgroup. Held queries leave their memory to all the others.
  uint32_t shared_bytes(const CacheLayout& layout) const {
    const uint32_t line = (dim(layout) / 2 + 4) * 4, tile = keys * (apart ? 2 : 1) * line;
    const uint32_t after = tile + std::max(rows * (keys + 4), groups * matrix.m * matrix.n) * 4;
    const uint32_t all = held ? std::max(rows * line, after) : rows * line + after;
    return all + rows * 12 + queries.tokens * 36 + groups * 4 + 4;
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

// Four subgroups of 32 lanes, eight narrower ones, and no more than have a part of a row each. Devices with
// few registers take twice or four times as many.
uint32_t subgroups(const DeviceProfile& profile, const AttentionArgs& args, Shape shape) {
  shape.groups = std::clamp(128 / profile.subgroup, 4u, 8u);
  while (shape.groups > 1 && shape.groups * profile.subgroup > keys / 4 * shape.rows) shape.groups /= 2;
  while (shape.sums(args.cache.layout, profile.subgroup) > profile.registers.matrix_sums &&
         shape.groups * 2 * profile.subgroup <= std::min(most_invocations, keys / 4 * shape.rows))
    shape.groups *= 2;
  return shape.groups;
}

// What every device of this tier has, or more, as long as a processor of the device still has room for
// several.
uint32_t most_shared_bytes(const DeviceProfile& profile) {
  return std::clamp(profile.shared_bytes, 32768u, 49152u) - 768;
}

// Takes the largest matrices that the device has, and as many rows as fit the shared memory: they share what
// is loaded. It takes fewer where that ends sooner: where the cores would have too few workgroups, or the
// last ones would leave some without. Of these only the matrices' size changes a row's bits, and that is the
// same for all steps.
std::optional<Shape> choose_shape(const DeviceProfile& profile, const AttentionArgs& args) {
  std::optional<Shape> best;
  const CacheLayout& layout = args.cache.layout;
  const auto size = [](const MatrixShape& matrix) { return matrix.m * matrix.n * matrix.k; };
  const auto workgroups = [&](const Shape& shape) {
    return (args.q.rows + shape.queries.tokens - 1) / shape.queries.tokens * shape.queries.group_workgroups *
           layout.kv_heads;
  };
  for (const MatrixShape& matrix : profile.matrix_shapes) {
    if (best && size(matrix) <= size(best->matrix)) continue;
    std::optional<Shape> most;
    const auto ends_sooner = [&](const Shape& shape) {
      if (profile.cores == 0) return workgroups(*most) < profile.busy_groups;
      const auto turns = [&](uint32_t groups) { return (groups + profile.cores - 1) / profile.cores; };
      return turns(workgroups(shape)) * shape.rows < turns(workgroups(*most)) * most->rows;
    };
    for (uint32_t rows : {128u, 64u, 32u, 16u}) {
      if (rows % matrix.m) continue;
      Shape shape = {rows, 0, matrix, fold(args, rows)};
      shape.groups = subgroups(profile, args, shape);
      if (!shape.divides(profile.subgroup)) continue;
      // So many only where a subgroup has no more of them than of fewer.
      if (rows > 64 && (shape.strips() > shape.groups_down() ||
                        shape.sums(layout, profile.subgroup) > profile.registers.matrix_sums))
        continue;
      shape.held = shape.held_queries(layout, profile.subgroup) <= profile.registers.matrix_queries;
      shape.apart = shape.groups == shape.groups_down(); // subgroups with whole rows then wait for no others
      if (shape.shared_bytes(layout) > most_shared_bytes(profile)) shape.apart = false;
      if (shape.shared_bytes(layout) > most_shared_bytes(profile)) continue;
      if (most && (rows < 32 || !ends_sooner(shape))) break;
      most = shape;
    }
    if (most) best = most;
  }
  return best;
}

std::string kernel_name(const AttentionArgs& args) {
  return "attention.cm." + cache_kernel(args.cache.layout.type);
}

// Not where the sums are kept: attention weights must be exact. Not on CPU drivers: they only emulate
// matrices.
bool runs(const DeviceProfile& profile, const AttentionArgs& args) {
  return !profile.cpu8 && profile.subgroup >= 8 && args.q.rows >= 16 && args.one_sequence && !args.sums &&
         !args.chosen && attention_block(profile, args.cache.layout) % keys == 0 &&
         find_kernel(kernel_name(args)) && choose_shape(profile, args);
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
  dispatch.set_constant(ATTENTION_HELD_ID, shape.held ? 1 : 0);
  dispatch.set_constant(ATTENTION_APART_ID, shape.apart ? 1 : 0);
  const CacheType type = args.cache.layout.type;
  // Loads of 16 bytes become so many times 16.
  const uint32_t widened = value_type(type) == CacheType::q4_0 ? 4 : is_scaled(type) ? 2 : 1;
  dispatch.set_constant(ATTENTION_AHEAD_ID, std::max(profile.registers.matrix_loads / widened, 1u));
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
