#include "kernel/attention/chosen_positions.h"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "kernel/attention/attention_variants.h"
#include "kernel/lowering.h"
#include "shaders/attention/chosen_positions.params.h"

namespace pumice {

namespace {

constexpr uint32_t workgroup_span = 256;                 // positions
constexpr uint64_t preferred_bytes = uint64_t{64} << 20; // of the scores of some rows

// Queries of a workgroup: a quarter of the shared memory that every device has.
uint32_t heads_at_once(const DeviceProfile& profile, const ChoosePositionsArgs& args) {
  const uint32_t head_bytes = args.cache.layout.head_dim_padded() * static_cast<uint32_t>(sizeof(float));
  return std::clamp(profile.shared_bytes / 4 / head_bytes, 1u, std::min(args.heads, 8u));
}

// Of `rows` rows of the step from `first_row` on, in one part of the cache.
Dispatch index_scores(const DeviceProfile& profile, const ChoosePositionsArgs& args, const CacheRef& cache,
                      const ActivationRef& scores, uint32_t first_row, uint32_t rows) {
  AttentionArgs attention;
  attention.q = args.q;
  attention.cache = cache;
  attention.heads = args.heads;
  attention.scale = args.scale;
  attention.step = args.step;
  attention.step_layout = args.step_layout;
  attention.result = scores;
  Dispatch dispatch = prepare_attention(attention, profile.workgroup);
  dispatch.kernel = "index_scores." + cache_kernel(cache.layout.type);
  dispatch.set_constant(ATTENTION_HEADS_ID, heads_at_once(profile, args));
  set_spans(dispatch, 0, first_row);
  const BoundView weights = bound_view(args.weights);
  const IndexScoresParams params = {weights.first, args.weights.stride, args.most, workgroup_span};
  const size_t at = dispatch.params.size();
  dispatch.params.resize(at + sizeof(params));
  std::memcpy(dispatch.params.data() + at, &params, sizeof(params));
  static_assert(INDEX_SCORES == ATTENTION_RESULT);
  dispatch.bind(INDEX_WEIGHTS, weights.buffer, Access::read);
  dispatch.groups = {1, rows, (args.context + workgroup_span - 1) / workgroup_span};
  const double seen = args.context / 2.0; // an estimate: a plan does not know how full the cache will be
  dispatch.flops = 2.0 * rows * args.q.columns * seen;
  dispatch.bytes = static_cast<double>(cache.layout.key_tile_bytes()) / 8 * rows * seen;
  return dispatch;
}

Dispatch choose(const DeviceProfile& profile, const ChoosePositionsArgs& args, const ActivationRef& scores,
                uint32_t first_row, uint32_t rows) {
  Dispatch dispatch;
  dispatch.kernel = "choose_positions";
  dispatch.constants = {profile.workgroup};
  dispatch.set_params(ChoosePositionsParams{scores.stride, args.result.stride, args.most, first_row});
  dispatch.bind(CHOOSE_STEP, args.step, Access::read);
  dispatch.bind(CHOOSE_SCORES, scores.buffer, Access::read);
  dispatch.bind(CHOOSE_RESULT, args.result.buffer, Access::write);
  dispatch.groups = {rows, 1, 1};
  dispatch.bytes = 6.0 * rows * args.context / 2 * sizeof(float);
  return dispatch;
}

} // namespace

void choose_positions(Lowering& lowering, const ChoosePositionsArgs& args) {
  const DeviceProfile& profile = lowering.profile();
  const uint32_t columns = chosen_words(args.context) * 32, rows = args.q.rows;
  const uint64_t row_bytes = uint64_t{columns} * sizeof(float);
  const uint64_t fit = std::max<uint64_t>(std::min(preferred_bytes, profile.range_bytes) / row_bytes, 1);
  const auto each = static_cast<uint32_t>(std::min<uint64_t>(rows, fit));
  const BufferRef buffer = lowering.temporary(each * row_bytes);
  const ActivationRef scores = {buffer, each, ROWS_TOKENS, columns, columns};
  for (uint32_t first = 0; first < rows; first += each) {
    const uint32_t count = std::min(each, rows - first);
    for (const CacheRef& part : args.cache.parts())
      lowering.emit(index_scores(profile, args, part, scores, first, count));
    lowering.emit(choose(profile, args, scores, first, count));
  }
}

std::string ChoosePositions::describe() const {
  return fmt::format("layer {} heads {} scale {:.6g} most {}", layer, heads, scale, most);
}

Status ChoosePositions::lower(Lowering& lowering, const Node& node) const {
  if (lowering.context() <= most) return {};
  ChoosePositionsArgs args;
  args.q = lowering.tensor(node.inputs[0]);
  args.weights = lowering.tensor(node.inputs[1]);
  args.cache = lowering.cache(layer);
  args.heads = heads;
  args.scale = scale;
  args.most = most;
  args.context = lowering.context();
  args.step = lowering.step();
  args.step_layout = lowering.step_layout();
  args.result = lowering.tensor(node.output);
  choose_positions(lowering, args);
  return {};
}

TensorId choose_positions(Graph& graph, std::string name, TensorId q, TensorId weights,
                          const ChoosePositions& operation, uint32_t context) {
  return graph.add(operation, {q, weights}, {}, {std::move(name), RowKind::tokens, chosen_words(context)});
}

} // namespace pumice
