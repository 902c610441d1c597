#pragma once

#include <optional>
#include <span>

#include "graph/graph.h"
#include "kernel/activation.h"
#include "kernel/activation_ref.h"
#include "kernel/device_profile.h"
#include "kernel/dispatch.h"

namespace pumice {

// A mixture of experts. Each row chooses `used` of `count` feed-forward layers. Each choice is a slot: the
// row's j-th choice has number row * used + j. The slots are grouped in blocks, each of one expert, whose
// products share the expert's weights. A row's results are added up, weighted by their shares.

// Blocks of slots, as in shaders/matmul/matmul.params.h.
struct ExpertBlocks {
  uint32_t block_slots = 1;
  uint32_t count = 0; // at most
  BufferRef buffer;

  // Large enough for any distribution of `slots` slots over `experts` experts.
  static ExpertBlocks of(uint32_t block_slots, uint32_t slots, uint32_t experts);
  uint64_t bytes() const { return 4 * (1 + uint64_t{count} * (1 + block_slots)); }
};

// Chooses the `used` experts with the largest logits; among equal ones the lower number; NaN counts as the
// smallest. Their shares are the softmax over all experts, or, if `normalise`, over the chosen ones.
struct ExpertRouteArgs {
  ActivationRef logits; // [rows, count]
  uint32_t used = 1;
  bool normalise = true;
  ExpertBlocks blocks; // one slot in each block, in order
  BufferRef shares;    // a float for each slot
  BufferRef step;
};
Dispatch expert_route(const DeviceProfile& profile, const ExpertRouteArgs& args);

// Groups the same slots in blocks of several slots.
Dispatch expert_group(const DeviceProfile& profile, uint32_t experts, const ExpertBlocks& choices,
                      const ExpertBlocks& blocks);

// result[row] = sum over j, in order, of shares[slot] * products[slot] + residual[row].
struct ExpertCombineArgs {
  ActivationRef products; // a row for each slot
  uint32_t used = 1;
  BufferRef shares;
  std::optional<ActivationRef> residual;
  ActivationRef result;
  BufferRef step;
};
Dispatch expert_combine(const DeviceProfile& profile, const ExpertCombineArgs& args);

// result = sum over the chosen e of share_e * down_e(activation(gate_e x) * up_e x) + residual.
// inputs: x, the router's logits [rows, count], then the residual if any. weights: the gates, the ups, the
// downs, `count` of each.
struct Experts : Operation {
  uint32_t count = 1;
  uint32_t used = 1;
  Activation activation = Activation::silu;
  bool normalise = true; // the shares of a row's chosen experts add up to 1
  bool residual = false;

  std::string_view name() const override { return "experts"; }
  std::string describe() const override;
  Status lower(Lowering& lowering, const Node& node) const override;
};

TensorId experts(Graph& graph, std::string name, TensorId x, TensorId router_logits,
                 std::span<const WeightId> gate, std::span<const WeightId> up, std::span<const WeightId> down,
                 Experts operation, std::optional<TensorId> residual = std::nullopt);

} // namespace pumice
