#include "models/starcoder2/starcoder2.h"

#include <nlohmann/json.hpp>

#include "models/decoder/model.h"

namespace pumice {

namespace {

// StarCoder 2 (Lozhkov et al. 2024): layer norms, biases everywhere, and a feed-forward without a gate.
class Starcoder2 : public DecoderModel {
public:
  Starcoder2(DecoderConfig config, bool gguf, bool bias)
      : DecoderModel(std::move(config), gguf), bias_(bias) {}

protected:
  void build(DecoderBuilder& builder) const override {
    AttentionStyle style;
    style.input_bias = style.output_bias = bias_;
    builder.decode([&](uint32_t layer, TensorId x) {
      return builder.block(
          x, norms_before, [&](TensorId y) { return builder.self_attention(layer, y, style); },
          [&](TensorId y) {
            return builder.plain_feed_forward(y, {"mlp.c_fc", "ffn_up"}, {"mlp.c_proj", "ffn_down"}, bias_);
          });
    });
  }

  std::string_view gguf_architecture() const override { return "starcoder2"; }
  Activation gguf_activation() const override { return Activation::gelu_tanh; }
  nlohmann::json gguf_metadata() const override {
    if (config().windows[0] == 0) return nlohmann::json::object();
    return {{"attention.sliding_window", config().windows[0]}};
  }

private:
  bool bias_;
};

} // namespace

Result<std::unique_ptr<ModelDefinition>> open_starcoder2(const ModelFile& file) {
  const Settings settings(file);
  DecoderConfigNames names;
  names.norm_eps = {"norm_epsilon", "attention.layer_norm_epsilon"};
  names.default_norm_eps = 1e-5f;
  names.default_activation = Activation::gelu_tanh;
  names.tied_by_default = true;
  PUMICE_TRY(DecoderConfig config, read_decoder_config(settings, names));
  config.norm.kind = NormKind::layer;
  PUMICE_TRY(uint32_t window,
             settings.u32_or({"sliding_window", "attention.sliding_window"}, 0, limits::context, 0));
  config.windows.assign(config.layers, window);
  PUMICE_TRY(bool bias, settings.boolean_or({"use_bias", ""}, true));
  return std::unique_ptr<ModelDefinition>(
      std::make_unique<Starcoder2>(std::move(config), settings.gguf(), bias));
}

} // namespace pumice
