#include "models/mixtral/mixtral.h"

#include <fmt/format.h>

#include "kernel/experts/experts.h"
#include "models/decoder/model.h"

namespace pumice {

namespace {

// Mixtral (Jiang et al. 2024): Mistral's blocks with a mixture of experts as feed-forward; for each token, a
// router chooses a few of many experts.
class Mixtral : public DecoderModel {
public:
  Mixtral(DecoderConfig config, bool gguf, uint32_t experts, uint32_t used)
      : DecoderModel(std::move(config), gguf), experts_(experts), used_(used) {}

protected:
  void build(DecoderBuilder& builder) const override {
    builder.decode([&](uint32_t layer, TensorId x) {
      return builder.pre_norm_block(
          x, [&](TensorId y) { return builder.self_attention(layer, y, {}); },
          [&](TensorId y) { return mixture(builder, y); });
    });
  }

  std::vector<Hyperparameter> own_hyperparameters() const override {
    return {{"experts", fmt::format("{}, of which {} for a token", experts_, used_)}};
  }
  std::string_view gguf_architecture() const override { return "llama"; }
  nlohmann::json gguf_metadata() const override {
    nlohmann::json metadata = {{"expert_count", experts_}, {"expert_used_count", used_}};
    if (config().windows[0]) metadata["attention.sliding_window"] = config().windows[0];
    return metadata;
  }

private:
  TensorId mixture(DecoderBuilder& builder, TensorId x) const {
    const TensorId router =
        builder.project(x, {"block_sparse_moe.gate", "ffn_gate_inp"}, experts_, false, "feed-forward");
    const auto weights = [&](const TensorName& name, uint32_t rows, uint32_t columns) {
      std::vector<WeightId> ids;
      for (const WeightView& view : builder.expert_tensors(name, experts_, rows, columns)) {
        ids.push_back(builder.weight(view, "feed-forward"));
      }
      return ids;
    };
    const uint32_t hidden = config().hidden, feed_forward = config().feed_forward;
    const auto gate = weights({"block_sparse_moe.experts.{}.w1", "ffn_gate_exps"}, feed_forward, hidden);
    const auto up = weights({"block_sparse_moe.experts.{}.w3", "ffn_up_exps"}, feed_forward, hidden);
    const auto down = weights({"block_sparse_moe.experts.{}.w2", "ffn_down_exps"}, hidden, feed_forward);
    Experts operation;
    operation.count = experts_;
    operation.used = used_;
    operation.activation = config().activation;
    return experts(builder.graph(), builder.node_name({"block_sparse_moe", "experts"}), x, router, gate, up,
                   down, operation);
  }

  uint32_t experts_;
  uint32_t used_;
};

constexpr uint32_t max_experts = 1024;

} // namespace

Result<std::unique_ptr<ModelDefinition>> open_mixtral(const ModelFile& file) {
  const Settings settings(file);
  DecoderConfigNames names;
  names.default_norm_eps = 1e-5f;
  PUMICE_TRY(DecoderConfig config, read_decoder_config(settings, names));
  PUMICE_TRY(uint32_t window,
             settings.u32_or({"sliding_window", "attention.sliding_window"}, 0, limits::context, 0));
  config.windows.assign(config.layers, window);
  config.set_neighbouring_in_gguf(settings.gguf());
  PUMICE_TRY(uint32_t experts, settings.u32({"num_local_experts", "expert_count"}, 1, max_experts));
  const SettingName used_name = {"num_experts_per_tok", "expert_used_count"};
  PUMICE_TRY(uint32_t used, settings.u32(used_name, 1, max_experts));
  if (used > experts) {
    return settings.error(used_name, fmt::format("expected at most the {} experts; found {}", experts, used));
  }
  return std::unique_ptr<ModelDefinition>(
      std::make_unique<Mixtral>(std::move(config), settings.gguf(), experts, used));
}

} // namespace pumice
