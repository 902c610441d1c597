#pragma once

#include "kernel/experts/experts.h"
#include "models/decoder/builder.h"

namespace pumice {

// The settings of mixtures of experts in place of feed-forwards.
struct MixtureConfig {
  uint32_t experts = 0;
  uint32_t feed_forward = 0; // of an expert
  ExpertRouting routing;
  uint32_t shared_feed_forward = 0; // of the expert that every token uses; 0: there is none
  bool shared_gate = false;         // its result is multiplied by the sigmoid of a projection
  bool biases = false;              // of the router and the experts
  bool ungated = false;       // experts have no gates: they are of the square of ReLU, the shared one too
  uint32_t latent = 0;        // columns that routed experts read and give; 0: those of the model
  float limit = 0;            // of a clamped gate, see ExpertActivation; 0: none
  bool scaled_inputs = false; // shares multiply what an expert reads
  std::vector<bool> sparse;   // by layer: a mixture; otherwise one feed-forward

  uint32_t dense_layers() const; // at the beginning
};

// What a file does not say. GGUF's keys are the same for all architectures.
struct MixtureDefaults {
  ExpertScore score = ExpertScore::softmax;
  bool biased = false;
  bool normalise = true;      // where a config.json lacks norm_topk_prob
  bool gguf_normalise = true; // what llama.cpp does where a GGUF file lacks expert_weights_norm
  uint32_t dense = 0;         // layers at the beginning, where a config.json says nothing of them
};

// Reads the number of experts, what a token uses of them, their size, the routing, and which layers are
// sparse. Not the shared expert.
Result<MixtureConfig> read_mixture(const Settings& settings, const DecoderConfig& config,
                                   const MixtureDefaults& defaults);

// The columns of n_shared_experts that are one feed-forward. `fallback`: experts where the file does not say.
Result<uint32_t> read_shared_experts(const Settings& settings, uint32_t feed_forward, uint32_t fallback = 1);

// GGUF's keys for the same and the shared expert.
nlohmann::json gguf_mixture(const MixtureConfig& mixture);
std::vector<Hyperparameter> hyperparameters(const MixtureConfig& mixture);

// How Hugging Face's file holds the experts: each matrix of its own, or all in one tensor, where an expert's
// gate and up are one matrix, the gate's rows first or alternating, stored transposed or as they are.
// Or the same matrices of all experts in one tensor, an expert's rows after another's; the last one
// transposed.
enum class ExpertStack { none, gate_first, alternating, gate_first_as_is, rows };

// The names of a mixture's tensors, {} for an expert's number.
struct MixtureNames {
  ExpertStack stack = ExpertStack::none;

  TensorName router = {"mlp.gate", "ffn_gate_inp"};
  TensorName routing_bias = {"mlp.gate.e_score_correction_bias", "exp_probs_b.bias"}; // without a suffix
  bool routing_bias_row = false; // Hugging Face's file has it as a row
  TensorName gate = {"mlp.experts.{}.gate_proj", "ffn_gate_exps"};
  TensorName up = {"mlp.experts.{}.up_proj", "ffn_up_exps"};
  TensorName down = {"mlp.experts.{}.down_proj", "ffn_down_exps"};
  TensorName result = {"mlp", "experts"}; // the node's
  GatedNames shared = {{"mlp.shared_expert.gate_proj", "ffn_gate_shexp"},
                       {"mlp.shared_expert.up_proj", "ffn_up_shexp"},
                       {"mlp.shared_expert.down_proj", "ffn_down_shexp"},
                       "shared_gated"};
  TensorName shared_gate = {"mlp.shared_expert_gate", "ffn_gate_inp_shexp"};
  TensorName scales = {"router.per_expert_scale", "ffn_down_exps.scale"}; // of the routing; without a suffix
  TensorName to_latent = {"mlp.fc1_latent_proj", "ffn_latent_down"};
  TensorName from_latent = {"mlp.fc2_latent_proj", "ffn_latent_up"};
};

// Where Hugging Face's file has the shared experts in the plural, as GLM's and DeepSeek's.
inline constexpr MixtureNames shared_experts_names = {
    .shared = {{"mlp.shared_experts.gate_proj", "ffn_gate_shexp"},
               {"mlp.shared_experts.up_proj", "ffn_up_shexp"},
               {"mlp.shared_experts.down_proj", "ffn_down_shexp"},
               "shared_gated"}};

// Mixtral's names.
inline constexpr MixtureNames mixtral_names = {
    .router = {"block_sparse_moe.gate", "ffn_gate_inp"},
    .routing_bias = {"block_sparse_moe.e_score_correction_bias", "exp_probs_b.bias"},
    .gate = {"block_sparse_moe.experts.{}.w1", "ffn_gate_exps"},
    .up = {"block_sparse_moe.experts.{}.w3", "ffn_up_exps"},
    .down = {"block_sparse_moe.experts.{}.w2", "ffn_down_exps"},
    .result = {"block_sparse_moe", "experts"}};

// The mixture, and the shared expert if there is one.
TensorId mixture(DecoderBuilder& builder, TensorId x, const MixtureConfig& config,
                 const MixtureNames& names = {});
// The same with the router's logits [rows, experts].
TensorId mixture(DecoderBuilder& builder, TensorId x, TensorId router_logits, const MixtureConfig& config,
                 const MixtureNames& names);

// What llama.cpp takes for granted in models of an architecture.
struct GgufMixtureRule {
  std::optional<bool> normalise; // none: it reads expert_weights_norm
  bool dense_layers = false;     // at the beginning, by leading_dense_block_count
  bool any_layers = false;       // a layer is sparse where it has a router
};

} // namespace pumice
