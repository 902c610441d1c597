#include "kernel/search/search.h"

#include <algorithm>
#include <cassert>

#include <fmt/format.h>

#include "base/align.h"
#include "kernel/lowering.h"
#include "shaders/common/step.h"

namespace pumice {

namespace {

uint32_t search_workgroup(const DeviceProfile& profile) {
  return profile.cpu ? 8 : 128;
}

SearchParams search_params(const DeviceProfile& profile, const ActivationRef& logits, uint32_t candidates) {
  SearchParams params = {};
  params.vocabulary = logits.columns;
  params.stride = logits.stride;
  params.blocks = (logits.columns + SEARCH_BLOCK - 1) / SEARCH_BLOCK;
  params.padded = static_cast<uint32_t>(align(params.blocks, search_workgroup(profile)));
  params.row_words = params.padded * SEARCH_WORDS_PER_BLOCK + 2 * candidates;
  params.candidates = candidates;
  return params;
}

} // namespace

SearchState::SearchState(std::span<std::byte> memory)
    : slots_(reinterpret_cast<SearchSlot*>(memory.data()), memory.size() / sizeof(SearchSlot)) {}

void SearchState::set(uint32_t sequence, float score, uint32_t beams, uint32_t wanted,
                      const SearchRules& rules) {
  SearchSlot& slot = slots_[sequence];
  slot.score = score;
  slot.beams = beams;
  slot.wanted = wanted;
  slot.after_softmax = rules.after_softmax ? 1 : 0;
  slot.forced = rules.forced.value_or(SEARCH_NONE);
  slot.first_timestamp = rules.first_timestamp.value_or(SEARCH_NONE);
  slot.penalty = rules.penalty;
  slot.forbidden = static_cast<uint32_t>(std::min<size_t>(rules.forbidden.size(), SEARCH_TOKENS));
  slot.penalised =
      static_cast<uint32_t>(std::min<size_t>(rules.penalised.size(), SEARCH_TOKENS - slot.forbidden));
  std::copy_n(rules.forbidden.begin(), slot.forbidden, slot.tokens);
  std::copy_n(rules.penalised.begin(), slot.penalised, slot.tokens + slot.forbidden);
  slot.ranges = static_cast<uint32_t>(std::min<size_t>(rules.forbidden_ranges.size(), SEARCH_RANGES));
  for (uint32_t n = 0; n < slot.ranges; ++n) {
    slot.bounds[2 * n] = rules.forbidden_ranges[n].first;
    slot.bounds[2 * n + 1] = rules.forbidden_ranges[n].end;
  }
}

uint64_t search_scratch_bytes(const DeviceProfile& profile, const ActivationRef& logits,
                              uint32_t candidates) {
  return 4 * uint64_t{logits.rows} * search_params(profile, logits, candidates).row_words;
}

std::array<Dispatch, 3> search(const DeviceProfile& profile, const SearchArgs& args) {
  assert(args.logits.rows_kind == ROWS_OUTPUTS);
  SearchParams params = search_params(profile, args.logits, args.candidates);
  params.out_stride = args.result.stride;
  params.sequences = static_cast<uint32_t>(args.state.bytes / sizeof(SearchSlot));
  params.capacity = args.step_capacity;

  // As in sampling: slices are large enough to be worth a workgroup, and few enough that starting them takes
  // no time.
  const uint32_t workgroup = profile.workgroup;
  const uint32_t wanted = std::clamp(profile.busy_groups, 16u, 256u);
  const uint32_t slice = static_cast<uint32_t>(align((params.blocks + wanted - 1) / wanted, workgroup));

  std::array<Dispatch, 3> dispatches;
  auto& [scan, pick, merge] = dispatches;
  scan.kernel = "search_scan";
  scan.constants = {workgroup, slice};
  scan.groups = {(params.blocks + slice - 1) / slice, args.logits.rows, 1};
  scan.bytes = 8.0 * args.logits.rows * args.logits.columns;
  scan.flops = 8.0 * args.logits.rows * args.logits.columns;
  pick.kernel = "search_pick";
  pick.constants = {search_workgroup(profile)};
  pick.groups = {args.logits.rows, 1, 1};
  pick.bytes = 4.0 * args.logits.rows * params.blocks * (args.candidates + 3.0);
  merge.kernel = "search_merge";
  merge.constants = {workgroup};
  merge.groups = {args.logits.rows, 1, 1};
  merge.bytes = 8.0 * args.logits.rows * args.candidates;
  for (Dispatch& dispatch : dispatches) {
    dispatch.bind(SEARCH_STEP, args.step, Access::read);
    dispatch.bind(SEARCH_STATE, args.state, Access::read);
    dispatch.set_params(params);
  }
  for (Dispatch* dispatch : {&scan, &pick}) {
    dispatch->bind(SEARCH_LOGITS, args.logits.buffer, Access::read_write);
    dispatch->bind(SEARCH_SCRATCH, args.scratch, Access::read_write);
  }
  merge.bind(SEARCH_SCRATCH, args.scratch, Access::read);
  merge.bind(SEARCH_RESULT, args.result.buffer, Access::write);
  return dispatches;
}

std::string Search::describe() const {
  return fmt::format("of {} continuations", candidates);
}

Status Search::lower(Lowering& lowering, const Node& node) const {
  SearchArgs args;
  args.logits = lowering.tensor(node.inputs[0]);
  args.result = lowering.tensor(node.output);
  args.candidates = candidates;
  args.state = lowering.sampling();
  args.step = lowering.step();
  args.step_capacity = lowering.step_capacity();
  args.scratch = lowering.temporary(search_scratch_bytes(lowering.profile(), args.logits, candidates));
  for (Dispatch& dispatch : search(lowering.profile(), args)) lowering.emit(std::move(dispatch));
  return {};
}

TensorId search(Graph& graph, std::string name, TensorId logits, uint32_t candidates) {
  Search operation;
  operation.candidates = std::min(candidates, SEARCH_CANDIDATES);
  const uint32_t columns = SEARCH_RESULT_COLUMNS * operation.candidates;
  return graph.add(operation, {logits}, {}, {std::move(name), graph.tensor(logits).rows, columns});
}

} // namespace pumice
