#pragma once

#include <array>
#include <optional>
#include <span>
#include <vector>

#include "graph/graph.h"
#include "kernel/activation_ref.h"
#include "kernel/device_profile.h"
#include "kernel/dispatch.h"
#include "shaders/search/search.params.h"

namespace pumice {

// Tokens from `first` to before `end`.
struct TokenRange {
  uint32_t first = 0, end = 0;
};

// What a beam's next token may be. `forced` comes before all else, a forbidden token is not penalised.
struct SearchRules {
  std::optional<uint32_t> forced;  // the only token that may come
  std::vector<uint32_t> forbidden; // each once
  std::vector<uint32_t> penalised; // each once: negative scores are multiplied by the penalty, others divided
  float penalty = 1;
  std::vector<TokenRange> forbidden_ranges;
  // All tokens from here on are times. If all of them together are more probable than every other token, one
  // of them has to come (Radford et al. 2022).
  std::optional<uint32_t> first_timestamp;
  // The rules change log-probabilities, whose sum is then no longer 1. Otherwise they change logits.
  bool after_softmax = false;

  // Whether the lists fit, and the kernels can do it.
  bool fits() const {
    return forbidden.size() + penalised.size() <= SEARCH_TOKENS && forbidden_ranges.size() <= SEARCH_RANGES &&
           !(first_timestamp && !penalised.empty());
  }
};

// A view of the beams in Lowering::sampling(), in place of sampling's state: a slot for each sequence. The
// host writes it before a step.
class SearchState {
public:
  static constexpr uint64_t bytes(uint32_t sequences) { return sequences * sizeof(SearchSlot); }

  explicit SearchState(std::span<std::byte> memory); // bytes(sequences) of it at least, aligned to 4

  // A beam, whose score is the sum of its tokens' log-probabilities. The outputs of a search's beams follow
  // one another in the step. `beams`: their number, for the first of them, and 0 for the others.
  void set(uint32_t sequence, float score, uint32_t beams, uint32_t wanted, const SearchRules& rules);

private:
  std::span<SearchSlot> slots_;
};

struct SearchArgs {
  ActivationRef logits; // rows_kind outputs; they are overwritten
  ActivationRef result; // [outputs, SEARCH_RESULT_COLUMNS * candidates]
  uint32_t candidates = 0;
  BufferRef state;
  BufferRef step;
  uint32_t step_capacity = 0;
  BufferRef scratch; // search_scratch_bytes()
};

uint64_t search_scratch_bytes(const DeviceProfile& profile, const ActivationRef& logits, uint32_t candidates);
// In this order, a barrier between them.
std::array<Dispatch, 3> search(const DeviceProfile& profile, const SearchArgs& args);

// The best continuations of all beams of each search. inputs: the logits, which nothing may read afterwards.
// output: [outputs, SEARCH_RESULT_COLUMNS * candidates], in the row of each search's first beam: see
// SEARCH_RESULT_COLUMNS.
struct Search : Operation {
  uint32_t candidates = 0; // most of one search, at most SEARCH_CANDIDATES

  std::string_view name() const override { return "search"; }
  std::string describe() const override;
  Status lower(Lowering& lowering, const Node& node) const override;
};

TensorId search(Graph& graph, std::string name, TensorId logits, uint32_t candidates);

} // namespace pumice
