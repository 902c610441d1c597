#include "models/qwen2_moe/qwen2_moe.h"

#include "models/decoder/mixture.h"
#include "models/decoder/model.h"

namespace pumice {

namespace {

// Qwen 1.5 and 2 with mixtures of experts (Yang et al. 2024): an expert behind a gate that every token uses
// beside those it chooses.
class Qwen2Moe : public MixtureModel {
public:
  Qwen2Moe(DecoderConfig config, bool gguf, MixtureConfig mixture, bool bias)
      : MixtureModel(std::move(config), gguf, std::move(mixture)), bias_(bias) {}

protected:
  void build(DecoderBuilder& builder) const override {
    AttentionStyle style;
    style.input_bias = bias_;
    builder.decode([&](uint32_t layer, TensorId x) {
      return builder.block(
          x, norms_before, [&](TensorId y) { return builder.self_attention(layer, y, style); },
          [&](TensorId y) { return mixture_or_dense(builder, layer, y, mixture()); });
    });
  }

  std::string_view gguf_architecture() const override { return "qwen2moe"; }
  GgufMixtureRule gguf_rule() const override { return {false, false}; }

private:
  bool bias_;
};

} // namespace

Result<std::unique_ptr<ModelDefinition>> open_qwen2_moe(const ModelFile& file) {
  const Settings settings = Settings::of_text(file);
  PUMICE_TRY(DecoderConfig config, read_decoder_config(settings));
  PUMICE_CHECK(read_upper_windows(settings, config));
  MixtureDefaults defaults;
  defaults.normalise = defaults.gguf_normalise = false;
  PUMICE_TRY(MixtureConfig mixture, read_mixture(settings, config, defaults));
  PUMICE_TRY(mixture.shared_feed_forward,
             settings.u32_or({"shared_expert_intermediate_size", "expert_shared_feed_forward_length"}, 1,
                             4 * limits::columns, config.feed_forward));
  mixture.shared_gate = true;
  PUMICE_TRY(Biases biases, read_biases(settings, {.attention = "qkv_bias", .attention_by_default = true}));
  return std::unique_ptr<ModelDefinition>(
      std::make_unique<Qwen2Moe>(std::move(config), settings.gguf(), std::move(mixture), biases.attention));
}

} // namespace pumice
