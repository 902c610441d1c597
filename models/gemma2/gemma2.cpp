#include "models/gemma2/gemma2.h"

#include <cmath>

#include <fmt/format.h>

#include "models/decoder/model.h"

namespace pumice {

namespace {

struct Gemma2Settings {
  float score_scale = 0;
  float score_soft_cap = 0; // 0: none
  bool bias = false;
};

// Gemma 2 (Gemma Team 2024): Gemma with further norms after the sublayers, soft caps of scores and logits,
// and a window in every second layer.
class Gemma2 : public DecoderModel {
public:
  Gemma2(DecoderConfig config, bool gguf, const Gemma2Settings& own)
      : DecoderModel(std::move(config), gguf), own_(own) {}

protected:
  void build(DecoderBuilder& builder) const override {
    AttentionStyle style;
    style.input_bias = style.output_bias = own_.bias;
    style.score_scale = own_.score_scale;
    style.soft_cap = own_.score_soft_cap;
    const auto block = [&](uint32_t layer, TensorId x) {
      return builder.block(
          x, norms_around, [&](TensorId y) { return builder.self_attention(layer, y, style); },
          [&](TensorId y) { return builder.gated_feed_forward(y); });
    };
    builder.decode(block);
  }

  std::vector<Hyperparameter> own_hyperparameters() const override {
    return {{"soft caps", fmt::format("scores {}, logits {}", own_.score_soft_cap, config().logit_soft_cap)}};
  }
  std::string_view gguf_architecture() const override { return "gemma2"; }
  Activation gguf_activation() const override { return Activation::gelu_tanh; }
  nlohmann::json gguf_metadata() const override {
    return {{"attn_logit_softcapping", own_.score_soft_cap},
            {"final_logit_softcapping", config().logit_soft_cap},
            {"attention.sliding_window", config().windows[0]}};
  }

private:
  Gemma2Settings own_;
};

constexpr float max_cap = 1e6f;

} // namespace

Result<std::unique_ptr<ModelDefinition>> open_gemma2(const ModelFile& file) {
  const Settings settings = Settings::of_text(file);
  DecoderConfigNames names;
  names.default_context = 8192;
  names.activation = {"hidden_activation", ""};
  names.default_activation = Activation::gelu_tanh;
  names.default_head_dim = 256;
  names.tied_by_default = true;
  PUMICE_TRY(DecoderConfig config, read_decoder_config(settings, names));
  config.norm.weight_offset = 1;
  config.embedding_scale = std::sqrt(static_cast<float>(config.hidden));
  Gemma2Settings own;
  PUMICE_TRY(own.bias, settings.boolean_or({"attention_bias", ""}, false));
  // GGUF has no key for the divisor of scores. It is the square root of the head's size, except in the
  // largest model, which has 46 layers.
  const float gguf_scalar = config.layers == 46 ? static_cast<float>(config.hidden / config.heads)
                                                : static_cast<float>(config.head_dim);
  const float default_scalar = settings.gguf() ? gguf_scalar : 256;
  PUMICE_TRY(float scalar, settings.f32_or({"query_pre_attn_scalar", ""}, 1e-3f, 1e6f, default_scalar));
  own.score_scale = 1 / std::sqrt(scalar);
  config.gguf_query_scale = std::sqrt(gguf_scalar / scalar);
  PUMICE_TRY(own.score_soft_cap, settings.f32_or({"attn_logit_softcapping", "attn_logit_softcapping"}, 0.0f,
                                                 max_cap, settings.gguf() ? 50.0f : 0.0f));
  PUMICE_TRY(config.logit_soft_cap, settings.f32_or({"final_logit_softcapping", "final_logit_softcapping"},
                                                    0.0f, max_cap, settings.gguf() ? 30.0f : 0.0f));
  PUMICE_TRY(uint32_t window,
             settings.u32_or({"sliding_window", "attention.sliding_window"}, 0, limits::context, 4096));
  PUMICE_CHECK(read_layer_types(settings, window, config, [](uint32_t layer) { return layer % 2 == 0; }));
  return std::unique_ptr<ModelDefinition>(std::make_unique<Gemma2>(std::move(config), settings.gguf(), own));
}

} // namespace pumice
