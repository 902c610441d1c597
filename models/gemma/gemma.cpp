#include "models/gemma/gemma.h"

#include <cmath>

#include "models/decoder/model.h"

namespace pumice {

namespace {

// Gemma (Gemma Team 2024): 1 is added to the norms' weights, embeddings are multiplied by the square root of
// their size, and the feed-forward is gated by GELU.
class Gemma : public DecoderModel {
public:
  Gemma(DecoderConfig config, bool gguf, bool bias) : DecoderModel(std::move(config), gguf), bias_(bias) {}

protected:
  void build(DecoderBuilder& builder) const override {
    AttentionStyle style;
    style.input_bias = style.output_bias = bias_;
    const auto block = [&](uint32_t layer, TensorId x) {
      return builder.block(
          x, norms_before, [&](TensorId y) { return builder.self_attention(layer, y, style); },
          [&](TensorId y) { return builder.gated_feed_forward(y); });
    };
    builder.decode(block);
  }

  std::string_view gguf_architecture() const override { return "gemma"; }
  Activation gguf_activation() const override { return Activation::gelu_tanh; }

private:
  bool bias_;
};

} // namespace

Result<std::unique_ptr<ModelDefinition>> open_gemma(const ModelFile& file) {
  const Settings settings = Settings::of_text(file);
  DecoderConfigNames names;
  names.default_context = 8192;
  // Older configs have "gelu" in hidden_act but mean GELU with tanh, so hidden_act is not read.
  names.activation = {"hidden_activation", ""};
  names.default_activation = Activation::gelu_tanh;
  names.default_head_dim = 256;
  names.tied_by_default = true;
  PUMICE_TRY(DecoderConfig config, read_decoder_config(settings, names));
  config.norm.weight_offset = 1;
  config.embedding_scale = std::sqrt(static_cast<float>(config.hidden));
  PUMICE_TRY(bool bias, settings.boolean_or({"attention_bias", ""}, false));
  return std::unique_ptr<ModelDefinition>(std::make_unique<Gemma>(std::move(config), settings.gguf(), bias));
}

} // namespace pumice
