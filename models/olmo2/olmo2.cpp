#include "models/olmo2/olmo2.h"

#include <nlohmann/json.hpp>

#include "models/decoder/model.h"

namespace pumice {

namespace {

struct Olmo2Settings {
  bool bias = false;
  RotaryConfig window_rotary; // of the layers with a window
};

// OLMo 2 (OLMo Team 2025): LLaMA's sublayers with norms after them instead of before, and norms over the
// whole query and key projections. OLMo 3 adds a window to three of four layers, whose rotation is not scaled
// when the context is extended.
class Olmo2 : public DecoderModel {
public:
  Olmo2(DecoderConfig config, bool gguf, Olmo2Settings own)
      : DecoderModel(std::move(config), gguf), own_(std::move(own)) {}

protected:
  void build(DecoderBuilder& builder) const override {
    AttentionStyle style;
    style.input_bias = style.output_bias = own_.bias;
    builder.decode([&](uint32_t layer, TensorId x) {
      style.rotary = config().windows[layer] ? &own_.window_rotary : nullptr;
      return builder.block(
          x, norms_after, [&](TensorId y) { return builder.normed_self_attention(layer, y, style); },
          [&](TensorId y) { return builder.gated_feed_forward(y); });
    });
  }

  std::string_view gguf_architecture() const override { return "olmo2"; }
  nlohmann::json gguf_metadata() const override {
    return largest_window(config()) ? gguf_windows(config()) : nlohmann::json::object();
  }

private:
  Olmo2Settings own_;
};

} // namespace

Result<std::unique_ptr<ModelDefinition>> open_olmo2(const ModelFile& file) {
  const Settings settings = Settings::of_text(file);
  DecoderConfigNames names;
  names.default_norm_eps = 1e-5f;
  PUMICE_TRY(DecoderConfig config, read_decoder_config(settings, names));
  PUMICE_CHECK(read_periodic_windows(settings, 0, 4, config));
  config.gguf_needs_head = true;
  Olmo2Settings own;
  own.window_rotary.pairs = config.rotary.pairs;
  own.window_rotary.dim = config.rotary.dim;
  own.window_rotary.base = config.rotary.base;
  PUMICE_TRY(own.bias, settings.boolean_or({"attention_bias", ""}, false));
  return std::unique_ptr<ModelDefinition>(
      std::make_unique<Olmo2>(std::move(config), settings.gguf(), std::move(own)));
}

} // namespace pumice
