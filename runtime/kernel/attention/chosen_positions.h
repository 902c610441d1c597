#pragma once

#include "graph/graph.h"
#include "kernel/activation_ref.h"
#include "kernel/cache_layout.h"
#include "kernel/dispatch.h"
#include "kernel/step_layout.h"

namespace pumice {

// Chooses which positions each row of the step attends to, of those that it sees: the `most` whose scores are
// the largest, of equal ones the first, and all where there are no more (the lightning indexer of DeepSeek
// V3.2, DeepSeek-AI 2025). A position's score is the sum over the heads of weight * max(scale * q . key, 0).
struct ChoosePositionsArgs {
  ActivationRef q;       // [tokens, heads * head_dim], rotated
  ActivationRef weights; // [tokens, heads]
  CacheRef cache;        // one head's keys, in which this step's are already; values are keys
  uint32_t heads = 0;
  float scale = 1;
  uint32_t most = 0;
  uint32_t context = 0; // positions of a sequence
  BufferRef step;
  StepLayout step_layout;
  ActivationRef result; // [tokens, chosen_words(context)], of bits
};

// Words of a row that has a bit for each position.
constexpr uint32_t chosen_words(uint32_t context) {
  return (context + 31) / 32;
}

void choose_positions(Lowering& lowering, const ChoosePositionsArgs& args);

// inputs: q and weights. The output is for an attention's last input (Attention::chosen). Where the session's
// context has no more positions than that, nothing is computed: its attention reads all.
struct ChoosePositions : Operation {
  uint32_t layer = 0; // whose cache has the keys
  uint32_t heads = 0;
  float scale = 1;
  uint32_t most = 0;

  std::string_view name() const override { return "choose_positions"; }
  std::string describe() const override;
  Status lower(Lowering& lowering, const Node& node) const override;
};

// `context`: the longest of any session.
TensorId choose_positions(Graph& graph, std::string name, TensorId q, TensorId weights,
                          const ChoosePositions& operation, uint32_t context);

} // namespace pumice
