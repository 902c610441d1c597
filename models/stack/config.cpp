#include "models/stack/config.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace pumice {

namespace {

Status check(const Settings& settings, const StackConfigNames& names, const StackConfig& config) {
  if (names.heads_share_columns() && config.hidden % config.heads) {
    return settings.error(names.heads, fmt::format("expected a divisor of the {} columns; found {}",
                                                   config.hidden, config.heads));
  }
  if (config.heads % config.kv_heads) {
    return settings.error(names.kv_heads, fmt::format("expected a divisor of the {} heads; found {}",
                                                      config.heads, config.kv_heads));
  }
  if (config.head_dim < 1 || config.head_dim > limits::head_dim) {
    return settings.error(
        settings.has(names.head_dim) ? names.head_dim : names.heads,
        fmt::format("expected heads of 1 to {} dimensions; found {}", limits::head_dim, config.head_dim));
  }
  return {};
}

// Some converters count a vocabulary's padding and some do not, so the embedding table gives the size.
Result<uint32_t> read_vocabulary(const Settings& settings, const SettingName& name) {
  if (name.hugging_face.empty()) return 0;
  if (!settings.gguf()) return settings.u32(name, 1, limits::tokens);
  const TensorView* table = settings.file().find("token_embd.weight");
  if (table && table->shape.size() == 2 && table->shape[0] >= 1 && table->shape[0] <= limits::tokens) {
    return static_cast<uint32_t>(table->shape[0]);
  }
  return settings.u32(name, 1, limits::tokens);
}

} // namespace

namespace {

Result<std::vector<std::string>> named_labels(const Settings& settings) {
  const SettingName name = {"id2label", "classifier.output_labels"};
  std::vector<std::string> labels;
  if (settings.gguf()) {
    const GgufArray* list = settings.file().array(settings.name(name));
    if (!list) return std::vector<std::string>{"LABEL_0"};
    for (std::string_view label : list->strings()) labels.emplace_back(label);
    if (labels.empty()) return settings.error(name, "expected at least one label");
    return labels;
  }
  if (!settings.has(name)) {
    PUMICE_TRY(uint32_t count, settings.u32_or({"num_labels", ""}, 1, limits::columns, 2));
    for (uint32_t i = 0; i < count; ++i) labels.push_back(fmt::format("LABEL_{}", i));
    return labels;
  }
  PUMICE_TRY(Fields listed, settings.fields().object("id2label"));
  const size_t count = settings.fields().find("id2label")->size();
  if (count < 1 || count > limits::columns) {
    return settings.error(name, fmt::format("expected 1 to {} labels; found {}", limits::columns, count));
  }
  for (size_t i = 0; i < count; ++i) {
    PUMICE_TRY(std::string label, listed.string(std::to_string(i)));
    labels.push_back(std::move(label));
  }
  return labels;
}

} // namespace

Result<std::vector<std::string>> read_labels(const Settings& settings, const TensorView* head) {
  PUMICE_TRY(std::vector<std::string> labels, named_labels(settings));
  if (!head || head->shape.empty() || head->shape[0] < 1 || head->shape[0] > limits::columns) return labels;
  const size_t named = labels.size();
  labels.resize(head->shape[0]);
  for (size_t i = named; i < labels.size(); ++i) labels[i] = fmt::format("LABEL_{}", i);
  return labels;
}

Result<StackConfig> read_stack_config(const Settings& settings, const StackConfigNames& names) {
  StackConfig config;
  PUMICE_TRY(config.vocabulary, read_vocabulary(settings, names.vocabulary));
  PUMICE_TRY(config.context, settings.u32_or(names.context, 1, limits::context, names.default_context));
  PUMICE_TRY(config.hidden, settings.u32(names.hidden, 1, limits::columns));
  config.layers = config.heads = 1; // where the format has no name for them
  if (settings.names(names.layers)) {
    PUMICE_TRY(config.layers, settings.u32(names.layers, 1, limits::layers));
  }
  if (settings.names(names.heads)) {
    PUMICE_TRY(config.heads, settings.u32(names.heads, 1, limits::heads));
  }
  PUMICE_TRY(config.kv_heads, settings.u32_or(names.kv_heads, 1, limits::heads, config.heads));
  const uint32_t head_dim = names.default_head_dim ? names.default_head_dim : config.hidden / config.heads;
  PUMICE_TRY(config.head_dim, settings.u32_or(names.head_dim, 1, limits::head_dim, head_dim));
  PUMICE_TRY(uint32_t values, settings.u32_or(names.value_dim, 1, limits::head_dim, config.head_dim));
  if (values != config.head_dim) {
    return settings.error(names.value_dim,
                          fmt::format("expected {}, the size of a key; found {}", config.head_dim, values));
  }
  PUMICE_TRY(config.feed_forward,
             settings.u32_or(names.feed_forward, 1, 4 * limits::columns, 4 * config.hidden));
  PUMICE_TRY(config.norm_eps, settings.f32_or(names.norm_eps, 0.0f, 1.0f, names.default_norm_eps));
  config.default_activation = names.default_activation;
  PUMICE_TRY(config.activation, settings.activation_or(names.activation, names.default_activation));
  PUMICE_CHECK(check(settings, names, config));
  return config;
}

} // namespace pumice
