#include "models/granite/granite.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "models/decoder/model.h"

namespace pumice {

namespace {

// Granite 3 and 4, dense (Granite Team 2024): LLaMA's blocks with factors for the embeddings, the scores,
// what a sublayer adds, and the logits.
class Granite : public DecoderModel {
public:
  Granite(DecoderConfig config, bool gguf, const Biases& biases, float score_scale)
      : DecoderModel(std::move(config), gguf), biases_(biases), score_scale_(score_scale) {}

protected:
  void build(DecoderBuilder& builder) const override {
    AttentionStyle style;
    style.score_scale = score_scale_;
    builder.decode([&](uint32_t layer, TensorId x) { return builder.llama_block(layer, x, biases_, style); });
  }

  std::vector<Hyperparameter> own_hyperparameters() const override {
    return {{"factors", fmt::format("embeddings {:g}, scores {:g}, residuals {:g}, logits {:g}",
                                    config().embedding_scale, score_scale_, config().residual_scale,
                                    config().logit_scale)}};
  }
  std::string_view gguf_architecture() const override { return "granite"; }
  nlohmann::json gguf_metadata() const override {
    return {{"embedding_scale", config().embedding_scale},
            {"attention.scale", score_scale_},
            {"residual_scale", config().residual_scale},
            {"logit_scale", 1 / config().logit_scale}};
  }

private:
  Biases biases_;
  float score_scale_;
};

} // namespace

Result<std::unique_ptr<ModelDefinition>> open_granite(const ModelFile& file) {
  const Settings settings = Settings::of_text(file);
  PUMICE_TRY(DecoderConfig config, read_decoder_config(settings));
  config.set_neighbouring_in_gguf(settings.gguf());
  const auto factor = [&](std::string_view hugging_face, std::string_view gguf, float fallback) {
    return settings.f32_or({hugging_face, gguf}, 1e-6f, 1e6f, fallback);
  };
  PUMICE_TRY(config.embedding_scale, factor("embedding_multiplier", "embedding_scale", 1));
  PUMICE_TRY(config.residual_scale, factor("residual_multiplier", "residual_scale", 1));
  PUMICE_TRY(float divisor, factor("logits_scaling", "logit_scale", 1));
  config.logit_scale = 1 / divisor;
  // Without the key, Hugging Face's models do not scale scores, and llama.cpp's do as others.
  const float fallback = settings.gguf() ? 1 / std::sqrt(static_cast<float>(config.head_dim)) : 1.0f;
  PUMICE_TRY(float score_scale, factor("attention_multiplier", "attention.scale", fallback));
  PUMICE_TRY(Biases biases, read_biases(settings));
  return std::unique_ptr<ModelDefinition>(
      std::make_unique<Granite>(std::move(config), settings.gguf(), biases, score_scale));
}

} // namespace pumice
