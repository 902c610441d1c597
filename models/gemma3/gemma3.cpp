#include "models/gemma3/gemma3.h"

#include <cmath>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "models/decoder/model.h"
#include "models/decoder/rotary.h"

namespace pumice {

namespace {

struct Gemma3Settings {
  float score_scale = 0;
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
      style.head_norm_offset = config().norm.weight_offset;
      if (config().windows[layer]) style.rotary = &own_.local_rotary;
      style.whole_pictures = config().pictures && config().pictures->see_whole;
      return builder.block(
          x, norms_around, [&](TensorId y) { return builder.self_attention(layer, y, style); },
          [&](TensorId y) { return builder.gated_feed_forward(y); });
    };
    builder.decode(block);
  }

  std::vector<Hyperparameter> own_hyperparameters() const override {
    return {{"rotary in windows", describe(own_.local_rotary)}};
  }
  std::string_view gguf_architecture() const override {
    return config().both_ways ? "gemma-embedding" : "gemma3";
  }
  Activation gguf_activation() const override { return Activation::gelu_tanh; }
  nlohmann::json gguf_metadata() const override {
    nlohmann::json metadata = gguf_rotary_in_windows(own_.local_rotary);
    metadata.update(gguf_windows(config()));
    if (config().both_ways) metadata["attention.sliding_window"] = 2 * (largest_window(config()) - 1);
    if (config().logit_soft_cap > 0) metadata["final_logit_softcapping"] = config().logit_soft_cap;
    return metadata;
  }

private:
  Gemma3Settings own_;
};

// The setting counts both sides of a window. transformers writes the size of one side with the token itself,
// size / 2 + 1, in its place, which is odd for all published sizes.
void halve_windows(const Settings& settings, DecoderConfig& config) {
  for (uint32_t& window : config.windows)
    if (window > 0 && (settings.gguf() || window % 2 == 0)) window = window / 2 + 1;
}

Status check_gemma3_pictures(const Settings& settings, const DecoderConfig& config) {
  if (!config.pictures) return {};
  if (config.pictures->token >= config.vocabulary) {
    return settings.file().fields().error(
        "image_token_index",
        fmt::format("expected one of the {} tokens; found {}", config.vocabulary, config.pictures->token));
  }
  for (const uint32_t window : config.windows) {
    if (window == 0 || window >= config.pictures->rows) continue;
    return settings.error(
        {"sliding_window", ""},
        fmt::format("expected at least a picture's {} rows; found {}", config.pictures->rows, window));
  }
  return {};
}

Result<std::unique_ptr<ModelDefinition>> open_gemma3_text(const ModelFile& file,
                                                          std::optional<PictureTokens> pictures) {
  const Settings settings = Settings::of_text(file);
  DecoderConfigNames names;
  names.default_context = 131072;
  names.activation = {"hidden_activation", ""};
  names.default_activation = Activation::gelu_tanh;
  names.default_head_dim = 256;
  names.tied_by_default = true;
  names.rotary = false;
  PUMICE_TRY(DecoderConfig config, read_decoder_config(settings, names));
  config.norm.weight_offset = 1;
  config.embedding_scale = std::sqrt(static_cast<float>(config.hidden));
  Gemma3Settings own;
  own.local_rotary.pairs = config.rotary.pairs = RotaryPairs::half_split;
  own.local_rotary.dim = config.rotary.dim = config.head_dim;
  own.local_rotary.base = 10000;
  config.rotary.base = 1e6f;
  PUMICE_CHECK(read_rotary_in_windows(settings, config, own.local_rotary));
  PUMICE_TRY(config.both_ways, settings.boolean_or({"use_bidirectional_attention", ""}, false));
  if (settings.gguf()) config.both_ways = settings.file().architecture() == "gemma-embedding";
  uint32_t period = 6; // one of this many layers has no window
  for (std::string_view name : {"_sliding_window_pattern", "sliding_window_pattern"}) {
    PUMICE_TRY(period, settings.u32_or({name, ""}, 1, limits::layers, period));
  }
  PUMICE_CHECK(read_periodic_windows(settings, settings.gguf() ? 0 : 4096, period, config));
  if (config.both_ways) halve_windows(settings, config);
  config.pictures = std::move(pictures);
  PUMICE_CHECK(check_gemma3_pictures(settings, config));
  PUMICE_TRY(own.bias, settings.boolean_or({"attention_bias", ""}, false));
  // GGUF has no key for the divisor of scores. It is the square root of the head's size, except in the
  // largest model, which has 62 layers.
  const float gguf_scalar = config.layers == 62 ? static_cast<float>(config.hidden / config.heads)
                                                : static_cast<float>(config.head_dim);
  const float default_scalar = settings.gguf() ? gguf_scalar : 256;
  PUMICE_TRY(float scalar, settings.f32_or({"query_pre_attn_scalar", ""}, 1e-3f, 1e6f, default_scalar));
  own.score_scale = 1 / std::sqrt(scalar);
  config.gguf_query_scale = std::sqrt(gguf_scalar / scalar);
  PUMICE_TRY(config.logit_soft_cap,
             settings.f32_or({"final_logit_softcapping", "final_logit_softcapping"}, 0.0f, 1e6f, 0.0f));
  return std::unique_ptr<ModelDefinition>(
      std::make_unique<Gemma3>(std::move(config), settings.gguf(), std::move(own)));
}

} // namespace

Result<std::unique_ptr<ModelDefinition>> open_gemma3(const ModelFile& file) {
  return open_gemma3_text(file, {});
}

Result<std::unique_ptr<ModelDefinition>> open_gemma3_that_sees(const ModelFile& file,
                                                               PictureTokens pictures) {
  return open_gemma3_text(file, std::move(pictures));
}

} // namespace pumice
