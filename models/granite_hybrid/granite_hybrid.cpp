#include "models/granite_hybrid/granite_hybrid.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "kernel/elementwise/elementwise.h"
#include "model/gguf_model.h"
#include "models/decoder/mixture.h"
#include "models/recurrence/mamba.h"

namespace pumice {

namespace {

// Granite 4 (Granite Team 2025): Mamba 2 in most layers, attention in the others, a mixture of experts beside
// a feed-forward, and Granite's factors.
class GraniteHybrid : public DecoderModel {
public:
  GraniteHybrid(DecoderConfig config, bool gguf, const MambaConfig& mamba, MixtureConfig mixture, bool bias,
                float score_scale)
      : DecoderModel(std::move(config), gguf), mamba_(mamba), mixture_(std::move(mixture)), bias_(bias),
        score_scale_(score_scale) {}

  Result<GgufModel> gguf(const ModelFile& file) const override {
    PUMICE_CHECK(check_gguf_mamba(mamba_, file, hybrid_mamba_settings));
    return DecoderModel::gguf(file);
  }

protected:
  void build(DecoderBuilder& builder) const override {
    AttentionStyle style;
    style.score_scale = score_scale_;
    style.input_bias = style.output_bias = bias_;
    uint32_t state = 0;
    builder.decode([&](uint32_t layer, TensorId x) {
      return builder.block(
          x, norms_before,
          [&](TensorId y) {
            if (config().attends_in(layer)) return builder.self_attention(layer, y, style);
            return mamba(builder, y, mamba_, "mamba.", state);
          },
          [&](TensorId y) { return feed_forward(builder, y); });
    });
  }

  std::vector<Hyperparameter> own_hyperparameters() const override {
    std::vector<Hyperparameter> all = pumice::hyperparameters(mamba_);
    if (mixture_.experts == 0) return all;
    for (Hyperparameter& own : pumice::hyperparameters(mixture_)) all.push_back(std::move(own));
    return all;
  }
  std::string_view gguf_architecture() const override { return "granitehybrid"; }
  nlohmann::json gguf_metadata() const override {
    nlohmann::json metadata = gguf_mamba(mamba_), heads = nlohmann::json::array();
    for (bool attends : config().attends) heads.push_back(attends ? config().kv_heads : 0);
    metadata.update({{"attention.head_count_kv", heads},
                     {"rope.scaling.finetuned", config().rotary.pairs != RotaryPairs::none},
                     {"embedding_scale", config().embedding_scale},
                     {"attention.scale", score_scale_},
                     {"residual_scale", config().residual_scale},
                     {"logit_scale", 1 / config().logit_scale}});
    if (mixture_.experts) {
      metadata.update(gguf_mixture(mixture_));
    } else {
      metadata["feed_forward_length"] = mixture_.shared_feed_forward;
    }
    return metadata;
  }

private:
  TensorId feed_forward(DecoderBuilder& builder, TensorId x) const {
    const std::string_view component = "feed-forward";
    const bool sparse = mixture_.experts > 0;
    const std::string_view gguf[] = {sparse ? "ffn_gate_shexp" : "ffn_gate",
                                     sparse ? "ffn_up_shexp" : "ffn_up"};
    const TensorName name = {"shared_mlp.input_linear", gguf[0]},
                     down = {"shared_mlp.output_linear", sparse ? "ffn_down_shexp" : "ffn_down"};
    const auto slices = builder.split_tensor(name.hugging_face, gguf, mixture_.shared_feed_forward,
                                             config().hidden, component);
    const std::string node = builder.node_name(name);
    const TensorId gated = builder.project(x, node + ".gate", slices[0], nullptr, component);
    const TensorId up = builder.project(x, node + ".up", slices[1], nullptr, component);
    const TensorId y = gate(builder.graph(), node + ".gated", gated, up, config().activation);
    const TensorId shared = builder.project(y, down, config().hidden, false, component);
    if (mixture_.experts == 0) return shared;
    MixtureConfig routed = mixture_;
    routed.shared_feed_forward = 0;
    return builder.add(mixture(builder, x, routed, names()), shared, "experts_and_shared");
  }

  static MixtureNames names() {
    MixtureNames names;
    names.stack = ExpertStack::gate_first_as_is;
    names.router = {"block_sparse_moe.router.layer", "ffn_gate_inp"};
    names.gate = {"block_sparse_moe.input_linear.weight", "ffn_gate_exps"};
    names.up = {"block_sparse_moe.input_linear.weight", "ffn_up_exps"};
    names.down = {"block_sparse_moe.output_linear.weight", "ffn_down_exps"};
    names.result = {"block_sparse_moe", "experts"};
    return names;
  }

  MambaConfig mamba_;
  MixtureConfig mixture_;
  bool bias_;
  float score_scale_;
};

Result<MixtureConfig> read_granite_mixture(const Settings& settings, const DecoderConfig& config) {
  MixtureConfig mixture;
  PUMICE_TRY(const uint32_t experts,
             settings.u32_or({"num_local_experts", "expert_count"}, 0, limits::layers, 0));
  if (experts) {
    PUMICE_TRY(mixture, read_mixture(settings, config, {}));
  }
  if (settings.gguf() && !experts) {
    mixture.shared_feed_forward = config.feed_forward;
    return mixture;
  }
  PUMICE_TRY(mixture.shared_feed_forward,
             settings.u32({"shared_intermediate_size", "expert_shared_feed_forward_length"}, 1,
                          4 * limits::columns));
  return mixture;
}

} // namespace

Result<std::unique_ptr<ModelDefinition>> open_granite_hybrid(const ModelFile& file) {
  const Settings settings = Settings::of_text(file);
  DecoderConfigNames names;
  if (settings.gguf()) names.kv_heads = {}; // a list
  PUMICE_TRY(DecoderConfig config, read_decoder_config(settings, names));
  PUMICE_TRY(const std::string positions, settings.fields().string_or("position_embedding_type", ""));
  PUMICE_TRY(const bool rotates, settings.boolean_or({"", "rope.scaling.finetuned"}, true));
  if (settings.gguf() ? !rotates : positions != "rope") config.rotary = {};
  if (config.rotary.pairs != RotaryPairs::none) config.set_neighbouring_in_gguf(settings.gguf());
  const auto factor = [&](std::string_view name, std::string_view gguf, float fallback = 1) {
    return settings.f32_or({name, gguf}, 1e-6f, 1e6f, fallback);
  };
  PUMICE_TRY(config.embedding_scale, factor("embedding_multiplier", "embedding_scale"));
  PUMICE_TRY(config.residual_scale, factor("residual_multiplier", "residual_scale"));
  PUMICE_TRY(const float divisor, factor("logits_scaling", "logit_scale"));
  config.logit_scale = 1 / divisor;
  const float fallback = settings.gguf() ? 1 / std::sqrt(static_cast<float>(config.head_dim)) : 1.0f;
  PUMICE_TRY(const float score_scale, factor("attention_multiplier", "attention.scale", fallback));
  PUMICE_TRY(bool bias, settings.boolean_or({"attention_bias", ""}, false));
  PUMICE_CHECK(read_attention_layers(
      settings, "attention", "mamba", [](uint32_t) { return false; }, config));
  if (settings.gguf()) {
    const auto first = std::ranges::find(config.attends, true) - config.attends.begin();
    bias = file.find(fmt::format("blk.{}.attn_q.bias", first));
  }
  PUMICE_TRY(const MambaConfig mamba, read_mamba(settings, hybrid_mamba_settings));
  PUMICE_TRY(MixtureConfig mixture, read_granite_mixture(settings, config));
  for (uint32_t layer = 0; layer < config.layers; ++layer) {
    if (!config.attends[layer]) add_states(mamba, config.states);
  }
  return std::unique_ptr<ModelDefinition>(std::make_unique<GraniteHybrid>(
      std::move(config), settings.gguf(), mamba, std::move(mixture), bias, score_scale));
}

} // namespace pumice
