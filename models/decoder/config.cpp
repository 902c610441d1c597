#include "models/decoder/config.h"

#include <algorithm>

#include <fmt/format.h>

#include "models/decoder/rotary.h"

namespace pumice {

namespace {

std::string describe_windows(const DecoderConfig& config) {
  const auto largest = std::max_element(config.windows.begin(), config.windows.end());
  if (*largest == 0) return "none";
  const auto sliding = config.windows.size() - std::count(config.windows.begin(), config.windows.end(), 0u);
  return fmt::format("{} in {} of {} layers", *largest, sliding, config.layers);
}

} // namespace

ModelShape DecoderConfig::shape() const {
  ModelShape shape{vocabulary, context, {}, {}};
  for (uint32_t window : windows) shape.layers.push_back({kv_heads, head_dim, window});
  return shape;
}

std::vector<Hyperparameter> hyperparameters(const DecoderConfig& config) {
  const auto number = [](auto value) { return fmt::format("{}", value); };
  return {
      {"vocabulary", number(config.vocabulary)},
      {"context", number(config.context)},
      {"hidden", number(config.hidden)},
      {"layers", number(config.layers)},
      {"heads", number(config.heads)},
      {"kv_heads", number(config.kv_heads)},
      {"head_dim", number(config.head_dim)},
      {"feed_forward", number(config.feed_forward)},
      {"norm_eps", number(config.norm_eps)},
      {"activation", to_string(config.activation)},
      {"rotary", describe(config.rotary)},
      {"window", describe_windows(config)},
      {"tied head", config.tied_head ? "yes" : "no"},
  };
}

Result<DecoderConfig> read_decoder_config(const Settings& settings, const DecoderConfigNames& names) {
  DecoderConfig config;
  PUMICE_TRY(static_cast<StackConfig&>(config), read_stack_config(settings, names));
  PUMICE_TRY(config.original_context,
             settings.u32_or({"original_max_position_embeddings", ""}, 1, limits::context, 0));
  if (settings.gguf()) {
    config.tied_head = settings.file().has_weights() && !settings.file().find("output.weight");
  } else {
    PUMICE_TRY(config.tied_head, settings.boolean_or({"tie_word_embeddings", ""}, names.tied_by_default));
  }
  config.windows.assign(config.layers, 0);
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
  PUMICE_TRY(uint32_t window, settings.u32_or({"sliding_window", ""}, 0, limits::context, 4096));
  PUMICE_TRY(uint32_t first, settings.u32_or({"max_window_layers", ""}, 0, limits::layers, 28));
  return read_layer_types(settings, window, config, [&](uint32_t layer) { return layer >= first; });
}

} // namespace pumice
