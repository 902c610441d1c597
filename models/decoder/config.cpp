#include "models/decoder/config.h"

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "models/decoder/rotary.h"

namespace pumice {

namespace {

std::string describe_windows(const DecoderConfig& config) {
  const uint32_t largest = largest_window(config);
  if (largest == 0) return "none";
  const auto sliding = config.windows.size() - std::count(config.windows.begin(), config.windows.end(), 0u);
  return fmt::format("{} in {} of {} layers", largest, sliding, config.layers);
}

} // namespace

ModelShape DecoderConfig::shape() const {
  ModelShape shape{vocabulary, context, {}, {}};
  for (uint32_t layer = 0; layer < layers; ++layer) {
    const LayerSizes sizes = sizes_of(layer);
    const bool stores = attends_in(layer) && cache_of(layer) == layer;
    shape.layers.push_back({stores ? sizes.kv_heads : 0, sizes.head_dim, windows[layer], values_are_keys});
  }
  shape.further_caches = further_caches;
  shape.states = states;
  shape.pictures = pictures;
  for (uint32_t layer = layers - sharing_layers; layer < layers; ++layer)
    shape.last_cut = std::min(shape.last_cut, cache_of(layer));
  return shape;
}

EncoderShape DecoderConfig::reading_shape() const {
  EncoderShape shape;
  shape.vocabulary = vocabulary;
  shape.context = most_chosen > 0 ? std::min(context, most_chosen) : context; // readers do not choose
  shape.causal = !both_ways;
  shape.hidden = hidden;
  shape.labels = labels;
  for (uint32_t layer = 0; layer < (reads_with_one_cache() ? 1 : layers); ++layer) {
    const LayerSizes sizes = sizes_of(layer);
    shape.caches.push_back({sizes.kv_heads, sizes.head_dim, 0, values_are_keys});
  }
  return shape;
}

LayerSizes DecoderConfig::sizes_of(uint32_t layer) const {
  return layer_sizes.empty() ? LayerSizes{kv_heads, head_dim, feed_forward} : layer_sizes[layer];
}

uint32_t DecoderConfig::cache_of(uint32_t layer) const {
  const uint32_t own = layers - sharing_layers;
  if (layer < own) return layer;
  uint32_t from = own - 1;
  while (from > 0 && windows[from] != windows[layer]) --from;
  return from;
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

Result<DecoderConfig> read_decoder_config(const Settings& settings, const StackConfigNames& names) {
  DecoderConfig config;
  PUMICE_TRY(static_cast<StackConfig&>(config), read_stack_config(settings, names));
  PUMICE_TRY(config.original_context,
             settings.u32_or({"original_max_position_embeddings", ""}, 1, limits::context, 0));
  if (settings.gguf()) {
    config.tied_head = settings.file().has_weights() && !settings.file().find("output.weight");
  } else {
    // A model that also sees may say it beside text_config.
    PUMICE_TRY(config.tied_head,
               settings.file().fields().boolean_or("tie_word_embeddings", names.tied_by_default));
    PUMICE_TRY(config.tied_head, settings.boolean_or({"tie_word_embeddings", ""}, config.tied_head));
  }
  config.windows.assign(config.layers, 0);
  config.bare = !settings.gguf() && settings.file().find("embed_tokens.weight");
  if (settings.file().find("score.weight")) {
    PUMICE_TRY(config.labels, read_labels(settings));
  }
  if (names.rotary) {
    PUMICE_TRY(config.rotary, read_rotary(settings, config, names.default_rotary_share));
  }
  return config;
}

Status read_sharing_layers(const Settings& settings, DecoderConfig& config) {
  const SettingName name = {"num_kv_shared_layers", "attention.shared_kv_layers"};
  const uint32_t most = settings.gguf() ? config.layers - 1 : limits::layers;
  PUMICE_TRY(config.sharing_layers, settings.u32_or(name, 0, most, config.sharing_layers));
  // Where no layer would have its own, transformers lets each have.
  if (config.sharing_layers >= config.layers) config.sharing_layers = 0;
  for (uint32_t layer = config.layers - config.sharing_layers; layer < config.layers; ++layer) {
    const uint32_t from = config.cache_of(layer);
    const LayerSizes own = config.sizes_of(layer), kept = config.sizes_of(from);
    if (config.windows[from] == config.windows[layer] && own.kv_heads == kept.kv_heads &&
        own.head_dim == kept.head_dim)
      continue;
    return settings.error(name, fmt::format("layer {} shares keys and values, and no earlier layer with keys "
                                            "and values of its own has the same window and heads",
                                            layer));
  }
  return {};
}

Status drop_prediction_layers(const Settings& settings, DecoderConfig& config) {
  const SettingName name = {"", "nextn_predict_layers"};
  PUMICE_TRY(uint32_t extra, settings.u32_or(name, 0, limits::layers, 0));
  if (extra >= config.layers) {
    return settings.error(name,
                          fmt::format("expected fewer than the {} layers; found {}", config.layers, extra));
  }
  config.layers -= extra;
  config.windows.resize(config.layers);
  return {};
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

Status read_attention_layers(const Settings& settings, std::string_view attention, std::string_view other,
                             const std::function<bool(uint32_t layer)>& attends, DecoderConfig& config) {
  config.attends.resize(config.layers);
  const SettingName name = {"layer_types", "attention.head_count_kv"};
  if (settings.gguf()) {
    const GgufArray* list = settings.file().array(settings.name(name));
    const std::vector<int64_t> heads = list ? list->integers() : std::vector<int64_t>();
    if (heads.size() != config.layers) return settings.error(name, "expected a value for each layer");
    for (uint32_t layer = 0; layer < config.layers; ++layer) {
      config.attends[layer] = heads[layer] > 0;
      if (heads[layer] > 0) config.kv_heads = static_cast<uint32_t>(heads[layer]);
    }
    return {};
  }
  std::vector<std::string> types;
  if (settings.has(name)) {
    PUMICE_TRY(types, settings.fields().string_array("layer_types"));
  } else {
    for (uint32_t layer = 0; layer < config.layers; ++layer)
      types.emplace_back(attends(layer) ? attention : other);
  }
  if (types.size() != config.layers) {
    return settings.error(
        name, fmt::format("expected one for each of the {} layers; found {}", config.layers, types.size()));
  }
  for (uint32_t layer = 0; layer < config.layers; ++layer) {
    if (types[layer] != attention && types[layer] != other) {
      return settings.error(name,
                            fmt::format("expected {} or {}; found '{}'", attention, other, types[layer]));
    }
    config.attends[layer] = types[layer] == attention;
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

Status read_gguf_windows(const Settings& settings, uint32_t window, uint32_t period, DecoderConfig& config) {
  const SettingName pattern = {"", "attention.sliding_window_pattern"};
  if (const GgufArray* list = settings.file().array(settings.name(pattern))) {
    const std::vector<int64_t> slides = list->integers();
    if (slides.size() < config.layers) return settings.error(pattern, "expected a value for each layer");
    for (uint32_t layer = 0; layer < config.layers; ++layer)
      config.windows[layer] = slides[layer] ? window : 0;
    return {};
  }
  PUMICE_TRY(period, settings.u32_or(pattern, 1, limits::layers, period));
  for (uint32_t layer = 0; layer < config.layers; ++layer) {
    config.windows[layer] = (layer + 1) % period ? window : 0;
  }
  return {};
}

Status read_periodic_windows(const Settings& settings, uint32_t default_window, uint32_t period,
                             DecoderConfig& config) {
  PUMICE_TRY(uint32_t window, settings.u32_or({"sliding_window", "attention.sliding_window"}, 0,
                                              limits::context, default_window));
  if (settings.gguf()) return read_gguf_windows(settings, window, period, config);
  return read_layer_types(settings, window, config,
                          [&](uint32_t layer) { return (layer + 1) % period != 0; });
}

uint32_t largest_window(const DecoderConfig& config) {
  return *std::max_element(config.windows.begin(), config.windows.end());
}

nlohmann::json gguf_windows(const DecoderConfig& config) {
  nlohmann::json slides = nlohmann::json::array();
  for (uint32_t window : config.windows) slides.push_back(window > 0);
  return {{"attention.sliding_window", largest_window(config)}, {"attention.sliding_window_pattern", slides}};
}

} // namespace pumice
