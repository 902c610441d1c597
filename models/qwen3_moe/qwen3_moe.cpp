#include "models/qwen3_moe/qwen3_moe.h"

#include "models/decoder/mixture.h"
#include "models/decoder/model.h"

namespace pumice {

namespace {

// Qwen 3 with mixtures of experts (Yang et al. 2025).
class Qwen3Moe : public MixtureModel {
public:
  Qwen3Moe(DecoderConfig config, bool gguf, MixtureConfig mixture, bool bias)
      : MixtureModel(std::move(config), gguf, std::move(mixture)), bias_(bias) {}

protected:
  void build(DecoderBuilder& builder) const override {
    AttentionStyle style;
    style.head_norms = true;
    style.input_bias = style.output_bias = bias_;
    builder.decode([&](uint32_t layer, TensorId x) {
      return builder.block(
          x, norms_before, [&](TensorId y) { return builder.self_attention(layer, y, style); },
          [&](TensorId y) { return mixture_or_dense(builder, layer, y, mixture()); });
    });
  }

  std::string_view gguf_architecture() const override { return "qwen3moe"; }
  GgufMixtureRule gguf_rule() const override { return {true, false}; }

private:
  bool bias_;
};

} // namespace

Result<std::unique_ptr<ModelDefinition>> open_qwen3_moe(const ModelFile& file) {
  const Settings settings = Settings::of_text(file);
  PUMICE_TRY(DecoderConfig config, read_decoder_config(settings));
  PUMICE_CHECK(read_upper_windows(settings, config));
  MixtureDefaults defaults;
  defaults.normalise = false;
  PUMICE_TRY(MixtureConfig mixture, read_mixture(settings, config, defaults));
  PUMICE_TRY(Biases biases, read_biases(settings));
  return std::unique_ptr<ModelDefinition>(
      std::make_unique<Qwen3Moe>(std::move(config), settings.gguf(), std::move(mixture), biases.attention));
}

} // namespace pumice
