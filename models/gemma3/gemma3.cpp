#include "models/gemma3/gemma3.h"

#include <cmath>

#include <nlohmann/json.hpp>

#include "models/decoder/model.h"
#include "models/decoder/rotary.h"

namespace pumice {

namespace {

struct Gemma3Settings {
  float score_scale = 0;
  float logit_soft_cap = 0; // 0: none
  bool bias = false;
  RotaryConfig local_rotary; // of the layers with a window
};

// The text model of Gemma 3 (Gemma Team 2025): Gemma 2 without soft caps of scores, with norms of each head's
// query and key, and with another rotary base in the layers that have a window.
class Gemma3 : public DecoderModel {
public:
  Gemma3(DecoderConfig config, bool gguf, Gemma3Settings own)
      : DecoderModel(std::move(config), gguf), own_(std::move(own)) {}

protected:
  void build(DecoderBuilder& builder) const override {
    const auto block = [&](uint32_t layer, TensorId x) {
      AttentionStyle style;
      style.input_bias = style.output_bias = own_.bias;
      style.score_scale = own_.score_scale;
      style.head_norms = true;
      style.head_norm_offset = norm_offset;
      if (config().windows[layer]) style.rotary = &own_.local_rotary;
      return builder.sandwich_norm_block(
          x, [&](TensorId y) { return builder.self_attention(layer, y, style); },
          [&](TensorId y) { return builder.gated_feed_forward(y); }, norm_offset);
    };
    builder.decode(block, std::sqrt(static_cast<float>(config().hidden)), norm_offset, own_.logit_soft_cap);
  }

  std::vector<Hyperparameter> own_hyperparameters() const override {
    return {{"rotary in windows", describe(own_.local_rotary)}};
  }
  std::string_view gguf_architecture() const override { return "gemma3"; }
  Activation gguf_activation() const override { return Activation::gelu_tanh; }
  nlohmann::json gguf_metadata() const override {
    nlohmann::json metadata = {{"rope.freq_base_swa", own_.local_rotary.base}};
    nlohmann::json slides = nlohmann::json::array();
    uint32_t largest = 0;
    for (uint32_t window : config().windows) {
      slides.push_back(window > 0);
      largest = std::max(largest, window);
    }
    metadata["attention.sliding_window"] = largest;
    metadata["attention.sliding_window_pattern"] = slides;
    if (own_.logit_soft_cap > 0) metadata["final_logit_softcapping"] = own_.logit_soft_cap;
    return metadata;
  }

private:
  static constexpr float norm_offset = 1;
  Gemma3Settings own_;
};

constexpr uint32_t default_period = 6; // one of this many layers has no window

Status read_rotaries(const Settings& settings, DecoderConfig& config, RotaryConfig& local) {
  const Fields& fields = settings.fields();
  local.pairs = config.rotary.pairs = RotaryPairs::half_split;
  local.dim = config.rotary.dim = config.head_dim;
  local.base = 10000;
  config.rotary.base = 1e6f;
  if (settings.gguf()) {
    PUMICE_TRY(config.rotary, read_rotary(settings, config));
    PUMICE_TRY(local.base, settings.f32_or({"", "rope.freq_base_swa"}, 1.0f, 1e12f, local.base));
    return {};
  }
  if (fields.has("rope_parameters")) {
    PUMICE_TRY(Fields by_type, fields.object("rope_parameters"));
    if (by_type.has("full_attention")) {
      PUMICE_TRY(Fields full, by_type.object("full_attention"));
      PUMICE_TRY(config.rotary.base, full.f32_or("rope_theta", 1.0f, 1e12f, config.rotary.base));
      PUMICE_CHECK(read_rotary_scaling(full, config, config.rotary));
      PUMICE_TRY(Fields sliding, by_type.object_or_empty("sliding_attention"));
      PUMICE_TRY(local.base, sliding.f32_or("rope_theta", 1.0f, 1e12f, local.base));
      return read_rotary_scaling(sliding, config, local);
    }
  }
  PUMICE_TRY(config.rotary.base, fields.f32_or("rope_theta", 1.0f, 1e12f, config.rotary.base));
  PUMICE_TRY(local.base, fields.f32_or("rope_local_base_freq", 1.0f, 1e12f, local.base));
  PUMICE_TRY(Fields scaling, fields.object_or_empty("rope_scaling"));
  return read_rotary_scaling(scaling, config, config.rotary);
}

// Reads which layers have a window. GGUF files have a period, or a boolean for each layer.
Status read_windows(const Settings& settings, DecoderConfig& config) {
  const SettingName pattern = {"sliding_window_pattern", "attention.sliding_window_pattern"};
  PUMICE_TRY(uint32_t window, settings.u32_or({"sliding_window", "attention.sliding_window"}, 0,
                                              limits::context, settings.gguf() ? 0 : 4096));
  if (settings.gguf()) {
    if (const GgufArray* list = settings.file().array(settings.name(pattern))) {
      const std::vector<int64_t> slides = list->integers();
      if (slides.size() < config.layers) return settings.error(pattern, "expected a value for each layer");
      for (uint32_t layer = 0; layer < config.layers; ++layer)
        config.windows[layer] = slides[layer] ? window : 0;
      return {};
    }
  }
  const SettingName old_pattern = {"_sliding_window_pattern", ""};
  PUMICE_TRY(uint32_t period, settings.u32_or(pattern, 1, limits::layers, default_period));
  if (!settings.has(pattern)) {
    PUMICE_TRY(period, settings.u32_or(old_pattern, 1, limits::layers, period));
  }
  return read_layer_types(settings, window, config,
                          [&](uint32_t layer) { return (layer + 1) % period != 0; });
}

Result<std::unique_ptr<ModelDefinition>> open(const ModelFile& file, const Settings& settings) {
  DecoderConfigNames names;
  names.default_context = 131072;
  names.activation = {"hidden_activation", ""};
  names.default_activation = Activation::gelu_tanh;
  names.default_head_dim = 256;
  names.tied_by_default = true;
  names.rotary = false;
  PUMICE_TRY(DecoderConfig config, read_decoder_config(settings, names));
  Gemma3Settings own;
  PUMICE_CHECK(read_rotaries(settings, config, own.local_rotary));
  PUMICE_CHECK(read_windows(settings, config));
  PUMICE_TRY(own.bias, settings.boolean_or({"attention_bias", ""}, false));
  // GGUF has no key for the divisor of scores. It is the square root of the head's size, except in the
  // largest model, which has 62 layers.
  const float gguf_scalar = config.layers == 62 ? static_cast<float>(config.hidden / config.heads)
                                                : static_cast<float>(config.head_dim);
  const float default_scalar = settings.gguf() ? gguf_scalar : 256;
  PUMICE_TRY(float scalar, settings.f32_or({"query_pre_attn_scalar", ""}, 1e-3f, 1e6f, default_scalar));
  own.score_scale = 1 / std::sqrt(scalar);
  config.gguf_query_scale = std::sqrt(gguf_scalar / scalar);
  PUMICE_TRY(own.logit_soft_cap,
             settings.f32_or({"final_logit_softcapping", "final_logit_softcapping"}, 0.0f, 1e6f, 0.0f));
  // The model that also reads pictures contains the text model.
  if (file.find("language_model.model.embed_tokens.weight")) config.root = "language_model.";
  return std::unique_ptr<ModelDefinition>(
      std::make_unique<Gemma3>(std::move(config), settings.gguf(), std::move(own)));
}

} // namespace

Result<std::unique_ptr<ModelDefinition>> open_gemma3(const ModelFile& file) {
  const Settings settings(file);
  if (settings.gguf() || !settings.fields().has("text_config")) return open(file, settings);
  PUMICE_TRY(Fields text, settings.fields().object("text_config"));
  return open(file, Settings(file, std::move(text)));
}

} // namespace pumice
