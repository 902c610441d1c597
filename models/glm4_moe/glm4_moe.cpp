#include "models/glm4_moe/glm4_moe.h"

#include "models/decoder/mixture.h"
#include "models/decoder/model.h"

namespace pumice {

namespace {

// GLM-4.5 and later (GLM Team 2025): experts chosen by the sigmoid of their logits plus a bias, beside shared
// ones, after some dense layers.
class Glm4Moe : public MixtureModel {
public:
  Glm4Moe(DecoderConfig config, bool gguf, MixtureConfig mixture, bool bias, bool head_norms)
      : MixtureModel(std::move(config), gguf, std::move(mixture)), bias_(bias), head_norms_(head_norms) {}

protected:
  void build(DecoderBuilder& builder) const override {
    AttentionStyle style;
    style.input_bias = bias_;
    style.head_norms = head_norms_;
    const BlockNorms norms = {
        {"input_layernorm", "attn_norm"}, {}, {"post_attention_layernorm", "post_attention_norm"}, {}};
    builder.decode([&](uint32_t layer, TensorId x) {
      return builder.block(
          x, norms, [&](TensorId y) { return builder.self_attention(layer, y, style); },
          [&](TensorId y) { return mixture_or_dense(builder, layer, y, mixture(), shared_experts_names); });
    });
  }

  std::string_view gguf_architecture() const override { return "glm4moe"; }
  GgufMixtureRule gguf_rule() const override { return {std::nullopt, true}; }

private:
  bool bias_, head_norms_;
};

} // namespace

Result<std::unique_ptr<ModelDefinition>> open_glm4_moe(const ModelFile& file) {
  const Settings settings = Settings::of_text(file);
  DecoderConfigNames names;
  names.default_norm_eps = 1e-5f;
  names.default_rotary_share = 0.5f;
  PUMICE_TRY(DecoderConfig config, read_decoder_config(settings, names));
  PUMICE_CHECK(drop_prediction_layers(settings, config));
  MixtureDefaults defaults;
  defaults.score = ExpertScore::sigmoid;
  defaults.biased = true;
  PUMICE_TRY(MixtureConfig mixture, read_mixture(settings, config, defaults));
  PUMICE_TRY(mixture.shared_feed_forward, read_shared_experts(settings, mixture.feed_forward));
  PUMICE_TRY(Biases biases, read_biases(settings));
  PUMICE_TRY(bool head_norms, settings.boolean_or({"use_qk_norm", ""}, false));
  if (settings.gguf()) head_norms = file.find("blk.0.attn_q_norm.weight");
  return std::unique_ptr<ModelDefinition>(std::make_unique<Glm4Moe>(
      std::move(config), settings.gguf(), std::move(mixture), biases.attention, head_norms));
}

} // namespace pumice
