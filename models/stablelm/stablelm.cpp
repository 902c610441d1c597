#include "models/stablelm/stablelm.h"

#include <nlohmann/json.hpp>

#include "models/decoder/model.h"

namespace pumice {

namespace {

struct StableLmSettings {
  bool parallel_residual = false;
  bool bias = false; // of queries, keys and values
};

// StableLM (Bellagente et al. 2024): LLaMA with layer norms, where only some dimensions of each head are
// rotated.
class StableLm : public DecoderModel {
public:
  StableLm(DecoderConfig config, bool gguf, const StableLmSettings& own)
      : DecoderModel(std::move(config), gguf), own_(own) {}

protected:
  void build(DecoderBuilder& builder) const override {
    AttentionStyle style;
    style.input_bias = own_.bias;
    const BlockNorms one_norm = {norms_before.attention_input, {}, {}, {}};
    builder.decode([&](uint32_t layer, TensorId x) {
      const auto attention = [&](TensorId y) { return builder.self_attention(layer, y, style); };
      const auto feed_forward = [&](TensorId y) { return builder.gated_feed_forward(y); };
      return own_.parallel_residual ? builder.parallel_block(x, one_norm, attention, feed_forward)
                                    : builder.block(x, norms_before, attention, feed_forward);
    });
  }

  std::vector<Hyperparameter> own_hyperparameters() const override {
    return {{"residual", own_.parallel_residual ? "parallel" : "sequential"}};
  }
  std::string_view gguf_architecture() const override { return "stablelm"; }
  nlohmann::json gguf_metadata() const override {
    return {{"use_parallel_residual", own_.parallel_residual}};
  }

private:
  StableLmSettings own_;
};

} // namespace

Result<std::unique_ptr<ModelDefinition>> open_stablelm(const ModelFile& file) {
  const Settings settings = Settings::of_text(file);
  DecoderConfigNames names;
  names.norm_eps = {"layer_norm_eps", "attention.layer_norm_epsilon"};
  names.default_norm_eps = 1e-5f;
  names.default_rotary_share = 0.25f;
  PUMICE_TRY(DecoderConfig config, read_decoder_config(settings, names));
  config.norm.kind = NormKind::layer;
  config.gguf_needs_head = true;
  const SettingName head_norms = {"qk_layernorm", ""};
  PUMICE_TRY(bool normed, settings.boolean_or(head_norms, false));
  if (normed || (settings.gguf() && file.find("blk.0.attn_q_norm.weight"))) {
    return Error{Code::unsupported,
                 file.path() +
                     ": norms of queries and keys (qk_layernorm, StableLM 2 12B) are not supported"};
  }
  StableLmSettings own;
  if (settings.gguf()) {
    own.parallel_residual = file.has_weights() && !file.find("blk.0.ffn_norm.weight");
    own.bias = file.find("blk.0.attn_q.bias");
  } else {
    PUMICE_TRY(own.parallel_residual, settings.boolean_or({"use_parallel_residual", ""}, false));
    PUMICE_TRY(own.bias, settings.boolean_or({"use_qkv_bias", ""}, false));
  }
  return std::unique_ptr<ModelDefinition>(
      std::make_unique<StableLm>(std::move(config), settings.gguf(), own));
}

} // namespace pumice
