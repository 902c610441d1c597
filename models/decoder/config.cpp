#include "models/decoder/config.h"

#include <fmt/format.h>

#include "models/decoder/rotary.h"

namespace pumice {

namespace {

Status check(const Settings& settings, const DecoderConfigNames& names, const DecoderConfig& config) {
  if (config.heads % config.kv_heads) {
    return settings.error(names.kv_heads, fmt::format("expected a divisor of the {} heads; found {}",
                                                      config.heads, config.kv_heads));
  }
  if (config.head_dim < 1 || config.head_dim > most::head_dim) {
    return settings.error(
        settings.has(names.head_dim) ? names.head_dim : names.heads,
        fmt::format("expected heads of 1 to {} dimensions; found {}", most::head_dim, config.head_dim));
  }
  return {};
}

// Converters differ in whether a vocabulary's padding is counted: the embedding table decides.
Result<uint32_t> read_vocabulary(const Settings& settings) {
  const SettingName name = {"vocab_size", "vocab_size"};
  if (!settings.gguf()) return settings.u32(name, 1, most::tokens);
  const TensorView* table = settings.file().find("token_embd.weight");
  if (table && table->shape.size() == 2 && table->shape[0] >= 1 && table->shape[0] <= most::tokens) {
    return static_cast<uint32_t>(table->shape[0]);
  }
  return settings.u32(name, 1, most::tokens);
}

} // namespace

Result<DecoderConfig> read_decoder_config(const Settings& settings, const DecoderConfigNames& names) {
  DecoderConfig config;
  PUMICE_TRY(config.vocabulary, read_vocabulary(settings));
  PUMICE_TRY(config.context, settings.u32_or(names.context, 1, most::context, names.default_context));
  PUMICE_TRY(config.original_context,
             settings.u32_or({"original_max_position_embeddings", ""}, 1, most::context, 0));
  PUMICE_TRY(config.hidden, settings.u32(names.hidden, 1, most::columns));
  PUMICE_TRY(config.layers, settings.u32(names.layers, 1, most::layers));
  PUMICE_TRY(config.heads, settings.u32(names.heads, 1, most::heads));
  PUMICE_TRY(config.kv_heads, settings.u32_or(names.kv_heads, 1, most::heads, config.heads));
  const uint32_t head_dim = names.default_head_dim ? names.default_head_dim : config.hidden / config.heads;
  PUMICE_TRY(config.head_dim, settings.u32_or(names.head_dim, 1, most::head_dim, head_dim));
  const SettingName value_dim = {"", "attention.value_length"};
  PUMICE_TRY(uint32_t values, settings.u32_or(value_dim, 1, most::head_dim, config.head_dim));
  if (values != config.head_dim) {
    return settings.error(value_dim,
                          fmt::format("expected {}, as the keys; found {}", config.head_dim, values));
  }
  PUMICE_TRY(config.feed_forward,
             settings.u32_or(names.feed_forward, 1, 4 * most::columns, 4 * config.hidden));
  PUMICE_TRY(config.norm_eps, settings.f32_or(names.norm_eps, 0.0f, 1.0f, names.default_norm_eps));
  PUMICE_TRY(config.activation, settings.activation_or(names.activation, names.default_activation));
  if (settings.gguf()) {
    config.tied_head = settings.file().has_weights() && !settings.file().find("output.weight");
  } else {
    PUMICE_TRY(config.tied_head, settings.boolean_or({"tie_word_embeddings", ""}, names.tied_by_default));
  }
  config.windows.assign(config.layers, 0);
  PUMICE_CHECK(check(settings, names, config));
  if (names.rotary) {
    PUMICE_TRY(config.rotary, read_rotary(settings, config, names.default_rotary_share));
  }
  return config;
}

Status read_layer_types(const Settings& settings, uint32_t window, DecoderConfig& config,
                        const std::function<bool(uint32_t layer)>& slides) {
  const SettingName name = {"layer_types", ""};
  if (!settings.has(name)) {
    for (uint32_t layer = 0; layer < config.layers; ++layer) {
      config.windows[layer] = slides(layer) ? window : 0;
    }
    return {};
  }
  PUMICE_TRY(std::vector<std::string> types, settings.fields().string_array("layer_types"));
  if (types.size() != config.layers) {
    return settings.error(
        name, fmt::format("expected one for each of the {} layers; found {}", config.layers, types.size()));
  }
  for (uint32_t layer = 0; layer < config.layers; ++layer) {
    if (types[layer] != "sliding_attention" && types[layer] != "full_attention") {
      return settings.error(
          name, fmt::format("expected sliding_attention or full_attention; found '{}'", types[layer]));
    }
    config.windows[layer] = types[layer] == "sliding_attention" ? window : 0;
  }
  return {};
}

Status read_upper_windows(const Settings& settings, DecoderConfig& config) {
  PUMICE_TRY(bool used, settings.boolean_or({"use_sliding_window", ""}, false));
  if (!used) return {};
  PUMICE_TRY(uint32_t window, settings.u32_or({"sliding_window", ""}, 0, most::context, 4096));
  PUMICE_TRY(uint32_t first, settings.u32_or({"max_window_layers", ""}, 0, most::layers, 28));
  return read_layer_types(settings, window, config, [&](uint32_t layer) { return layer >= first; });
}

} // namespace pumice
