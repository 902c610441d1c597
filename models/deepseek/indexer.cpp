#include "models/deepseek/indexer.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "kernel/attention/chosen_positions.h"
#include "kernel/position/position.h"

namespace pumice {

namespace {

constexpr SettingName most_name = {"index_topk", "attention.indexer.top_k"};
constexpr SettingName types_name = {"indexer_types", "attention.indexer.types"};
constexpr float key_norm_eps = 1e-6f; // not the config's

bool is_glm(const Settings& settings) {
  return settings.architecture() == (settings.gguf() ? "glm-dsa" : "glm_moe_dsa");
}

Result<std::vector<bool>> types_of_gguf(const Settings& settings, uint32_t layers) {
  std::vector<bool> full(layers, true);
  if (!settings.has(types_name)) {
    // llama.cpp takes files with this context for GLM-5.2, whose first ones do not say it.
    constexpr uint32_t later_context = 1 << 20;
    PUMICE_TRY(const uint32_t context, settings.u32({"", "context_length"}, 1, limits::context));
    for (uint32_t layer = 3; layer < layers && context >= later_context; ++layer)
      full[layer] = layer % 4 == 2;
    return full;
  }
  const GgufArray* list = settings.file().array(settings.name(types_name));
  const std::vector<int64_t> types = list ? list->integers() : std::vector<int64_t>();
  if (types.size() < layers)
    return settings.error(types_name, fmt::format("expected a value for each of the {} layers", layers));
  for (uint32_t layer = 0; layer < layers; ++layer) full[layer] = types[layer] != 0;
  return full;
}

// A list, a text with a letter for each layer, or a period and where it begins.
Result<std::vector<bool>> types_of_config(const Settings& settings, uint32_t layers) {
  const SettingName pattern = {"index_topk_pattern", ""};
  std::vector<std::string> types;
  SettingName from = types_name;
  if (settings.has(types_name)) {
    PUMICE_TRY(types, settings.fields().string_array(types_name.hugging_face));
  } else if (settings.has(pattern)) {
    from = pattern;
    PUMICE_TRY(types, settings.fields().string_array(pattern.hugging_face));
    if (types.size() == 1) {
      const std::string letters = types[0];
      types.clear();
      for (const char letter : letters)
        types.emplace_back(letter == 'F' ? "full" : letter == 'S' ? "shared" : std::string(1, letter));
    }
  } else {
    PUMICE_TRY(const uint32_t read, settings.u32_or({"index_topk_freq", ""}, 0, limits::layers, 1));
    PUMICE_TRY(const uint32_t offset, settings.u32_or({"index_skip_topk_offset", ""}, 0, limits::layers, 2));
    const uint32_t period = std::max(read, 1u);
    for (uint32_t layer = 0; layer < layers; ++layer)
      types.emplace_back(layer < offset || (layer + 1 - offset) % period == 0 ? "full" : "shared");
  }
  if (types.size() < layers) {
    return settings.error(
        from, fmt::format("expected one for each of the {} layers; found {}", layers, types.size()));
  }
  std::vector<bool> full;
  for (uint32_t layer = 0; layer < layers; ++layer) {
    if (types[layer] != "full" && types[layer] != "shared")
      return settings.error(from, fmt::format("expected full or shared; found '{}'", types[layer]));
    full.push_back(types[layer] == "full");
  }
  return full;
}

} // namespace

Result<std::optional<Indexer>> read_indexer(const Settings& settings, Decoder& d) {
  DecoderConfig& config = d.config;
  const bool glm = is_glm(settings);
  if (!settings.has(most_name) && !glm && settings.architecture() != "deepseek_v32")
    return std::optional<Indexer>();
  Indexer indexer;
  PUMICE_TRY(indexer.most, settings.u32_or(most_name, 1, limits::context, 2048));
  const auto show = [&](std::string what) {
    d.shown.push_back({"positions that the indexer chooses", std::move(what)});
  };
  if (settings.gguf() && !settings.file().find("blk.0.indexer.attn_k.weight")) {
    config.context = std::min(config.context, indexer.most);
    show(fmt::format("{}, and without its weights no more are read", indexer.most));
    return std::optional<Indexer>();
  }
  PUMICE_TRY(indexer.heads, settings.u32_or({"index_n_heads", "attention.indexer.head_count"}, 1,
                                            limits::heads, glm ? 32 : 64));
  const SettingName head_dim = {"index_head_dim", "attention.indexer.key_length"};
  PUMICE_TRY(indexer.head_dim, settings.u32_or(head_dim, 1, limits::head_dim, 128));
  if (indexer.head_dim < config.rotary.dim) {
    return settings.error(head_dim, fmt::format("expected at least the {} rotated dimensions; found {}",
                                                config.rotary.dim, indexer.head_dim));
  }
  if (glm) {
    indexer.pairs = RotaryPairs::neighbouring;
    PUMICE_TRY(indexer.full, settings.gguf() ? types_of_gguf(settings, config.layers)
                                             : types_of_config(settings, config.layers));
    if (!indexer.full[0])
      return settings.error(types_name, "the first layer has no choice of an earlier one to share");
  } else {
    indexer.full.assign(config.layers, true);
  }
  const auto full = static_cast<size_t>(std::ranges::count(indexer.full, true));
  config.further_caches.assign(full, {1, indexer.head_dim, 0, true});
  config.most_chosen = indexer.most;
  show(fmt::format("{}, by {} heads of {} in {} of {} layers", indexer.most, indexer.heads, indexer.head_dim,
                   full, config.layers));
  d.gguf_name = glm ? "glm-dsa" : "deepseek32";
  d.gguf_metadata.update({{"attention.indexer.head_count", indexer.heads},
                          {"attention.indexer.key_length", indexer.head_dim},
                          {"attention.indexer.top_k", indexer.most}});
  if (glm) d.gguf_metadata["attention.indexer.types"] = indexer.full;
  return std::optional<Indexer>(std::move(indexer));
}

void Indexer::choose(DecoderBuilder& builder, uint32_t layer, TensorId x, TensorId compressed,
                     AttentionStyle& style) const {
  if (builder.reads()) return; // texts that are no longer than the positions that it would choose
  const DecoderConfig& config = builder.config();
  if (full[layer]) {
    const std::string_view component = "attention";
    const TensorId q = builder.project(compressed, {"self_attn.indexer.wq_b", "indexer.attn_q_b"},
                                       heads * head_dim, false, component);
    TensorId k = builder.project(x, {"self_attn.indexer.wk", "indexer.attn_k"}, head_dim, false, component);
    k = builder.ModelBuilder::layer_norm(k, {"self_attn.indexer.k_norm", "indexer.k_norm"}, key_norm_eps);
    const TensorId weights =
        builder.project(x, {"self_attn.indexer.weights_proj", "indexer.proj"}, heads, false, component);
    RotaryStore store;
    store.layer = config.layers + static_cast<uint32_t>(std::count(full.begin(), full.begin() + layer, true));
    store.heads = heads;
    store.kv_heads = 1;
    store.head_dim = head_dim;
    store.rotary = config.rotary;
    store.rotary.pairs = pairs;
    ChoosePositions operation;
    operation.layer = store.layer;
    operation.heads = heads;
    operation.scale = 1 / std::sqrt(static_cast<float>(head_dim) * static_cast<float>(heads));
    operation.most = most;
    const std::string& prefix = builder.prefix();
    const TensorId rotated = rotary_store(builder.graph(), prefix + "index_query", q, k, k, std::move(store));
    builder.keep_chosen(pumice::choose_positions(builder.graph(), prefix + "chosen_positions", rotated,
                                                 weights, operation, config.context));
  }
  style.chosen = builder.chosen();
  style.most_chosen = most;
}

} // namespace pumice
