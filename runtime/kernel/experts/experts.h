#pragma once

#include <optional>
#include <string>
#include <vector>

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

// Of all logits; the sigmoid of each; softmax among those experts left that are nearly as good
// (Phi-3.5-MoE's, only for shares that are not normalised, without a bias or groups).
enum class ExpertScore : uint32_t { softmax, sigmoid, sparse_mixer };

// How a row chooses its experts, and their shares of its result.
struct ExpertRouting {
  uint32_t used = 1;
  ExpertScore score = ExpertScore::softmax;
  bool normalise = true; // the shares of the chosen experts add up to `scale`
  float scale = 1;       // otherwise a share is the score times `scale`
  float jitter = 0;      // sparse_mixer: half the distance of logits that are near
  bool biased = false;   // a bias for each expert is added to its score for the choice, not for the share
  bool scaled = false;   // a share is multiplied at last by a factor that its expert has
  // Neighbouring experts form groups of equal size. Only the experts of the best groups can be chosen. A
  // group is as good as the sum of its one or two best scores.
  uint32_t groups = 1, used_groups = 1, group_best = 1;

  std::string describe() const;
};

// Chooses the experts with the largest scores; among equal ones the lower number; NaN counts as the smallest.
struct ExpertRouteArgs {
  ActivationRef logits; // [rows, count]
  ExpertRouting routing;
  std::optional<BufferRef> bias;   // a float for each expert, if the routing is biased
  std::optional<BufferRef> scales; // the same, if it is scaled
  ExpertBlocks blocks;             // one slot in each block, in order
  BufferRef shares;                // a float for each slot
  BufferRef step;
};
Dispatch expert_route(const DeviceProfile& profile, const ExpertRouteArgs& args);

// Groups the same slots in blocks of several slots.
Dispatch expert_group(const DeviceProfile& profile, uint32_t experts, const ExpertBlocks& choices,
                      const ExpertBlocks& blocks);

// How an expert makes its inner row of its gate and its up: activation(gate) * up; with a limit gpt-oss's
// clamped gate, min(gate, limit) * sigmoid(1.702 min(gate, limit)) * (clamp(up, -limit, limit) + 1).
struct ExpertActivation {
  Activation kind = Activation::silu;
  float limit = 0; // 0: none
};

// result = the activation of scale * gate + gate_bias and scale * up + up_bias, for each slot, with its
// expert's biases. scale: the slot's share, or 1.
struct ExpertGateArgs {
  ExpertActivation activation;
  ActivationRef gate, up, result; // a row for each slot
  uint32_t used = 1;
  std::optional<BufferRef> gate_bias, up_bias; // [experts, columns]; both or none
  ExpertBlocks choices;                        // one slot in each block, in order
  std::optional<BufferRef> shares;             // by which an expert's input is multiplied
  BufferRef step;
};
Dispatch expert_gate(const DeviceProfile& profile, const ExpertGateArgs& args);

// result[row] = sum over j, in order, of shares[slot] * (products[slot] + bias[expert]) + residual[row].
struct ExpertCombineArgs {
  ActivationRef products; // a row for each slot
  uint32_t used = 1;
  BufferRef shares;
  bool weighted = true;          // otherwise all shares count as 1
  std::optional<BufferRef> bias; // [experts, columns]
  ExpertBlocks choices;          // one slot in each block, in order
  std::optional<ActivationRef> residual;
  ActivationRef result;
  BufferRef step;
};
Dispatch expert_combine(const DeviceProfile& profile, const ExpertCombineArgs& args);

// result = sum over the chosen e of share_e * down_e(activation(gate_e x, up_e x)) + residual. The products
// have biases if `biases` is set. inputs: x, the router's logits [rows, count], then the residual if any.
// weights: the gates, the ups, the downs, `count` of each, then the routing's bias [count] and its scales
// [count] if it has them, then the biases [count, rows] of all gates, of all ups and of all downs. Experts
// without gates have no biases, and their up is their gate: with ReLU, the inner row is its square. With
// `plain` the inner row is activation(up_e x) alone.
struct Experts : Operation {
  uint32_t count = 1;
  bool ungated = false;
  bool plain = false; // only where ungated
  ExpertRouting routing;
  ExpertActivation activation;
  bool scaled_inputs = false; // shares multiply an expert's input, not its result
  bool biases = false;
  bool residual = false;

  std::string_view name() const override { return "experts"; }
  std::string describe() const override;
  Status lower(Lowering& lowering, const Node& node) const override;
};

// The weights of a layer's experts.
struct ExpertWeights {
  std::vector<WeightId> gate, up, down; // a matrix for each expert; or no gates
  std::optional<WeightId> routing_bias, routing_scales;
  std::vector<WeightId> biases; // none, or of all gates, of all ups and of all downs
};

TensorId experts(Graph& graph, std::string name, TensorId x, TensorId router_logits,
                 const ExpertWeights& weights, Experts operation,
                 std::optional<TensorId> residual = std::nullopt);

} // namespace pumice
