#include "models/cohere2/cohere2.h"

#include <nlohmann/json.hpp>

#include "models/decoder/model.h"

namespace pumice {

namespace {

// Command R7B and Command A (Cohere 2025): attention and feed-forward read the same norm in parallel, only
// the layers with a window have rotary positions, of neighbouring dimensions, and logits are scaled.
class Cohere2 : public DecoderModel {
public:
  Cohere2(DecoderConfig config, bool gguf, bool bias) : DecoderModel(std::move(config), gguf), bias_(bias) {}

protected:
  void build(DecoderBuilder& builder) const override {
    const BlockNorms one_norm = {norms_before.attention_input, {}, {}, {}};
    builder.decode([&](uint32_t layer, TensorId x) {
      AttentionStyle style;
      style.input_bias = style.output_bias = bias_;
      if (config().windows[layer] == 0) style.rotary = &no_rotary;
      return builder.parallel_block(
          x, one_norm, [&](TensorId y) { return builder.self_attention(layer, y, style); },
          [&](TensorId y) { return builder.gated_feed_forward(y); });
    });
  }

  std::string_view gguf_architecture() const override { return "cohere2"; }
  nlohmann::json gguf_metadata() const override {
    nlohmann::json metadata = gguf_windows(config());
    metadata["logit_scale"] = config().logit_scale;
    return metadata;
  }

private:
  bool bias_;
};

} // namespace

Result<std::unique_ptr<ModelDefinition>> open_cohere2(const ModelFile& file) {
  const Settings settings = Settings::of_text(file);
  DecoderConfigNames names;
  names.norm_eps = {"layer_norm_eps", "attention.layer_norm_epsilon"};
  names.default_norm_eps = 1e-5f;
  names.tied_by_default = true;
  PUMICE_TRY(DecoderConfig config, read_decoder_config(settings, names));
  config.rotary.pairs = RotaryPairs::neighbouring;
  config.norm.kind = NormKind::layer;
  config.norm.bias = false;
  PUMICE_TRY(config.logit_scale, settings.f32_or({"logit_scale", "logit_scale"}, 1e-6f, 1e6f, 0.0625f));
  PUMICE_TRY(uint32_t period, settings.u32_or({"sliding_window_pattern", ""}, 1, limits::layers, 4));
  PUMICE_CHECK(read_periodic_windows(settings, 4096, period, config));
  PUMICE_TRY(Biases biases, read_biases(settings));
  return std::unique_ptr<ModelDefinition>(
      std::make_unique<Cohere2>(std::move(config), settings.gguf(), biases.attention));
}

} // namespace pumice
