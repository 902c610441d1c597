#include "models/encoder/config.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace pumice {

EncoderShape EncoderConfig::shape() const {
  EncoderShape shape;
  shape.kind = kind;
  shape.vocabulary = vocabulary;
  shape.token_types = token_types;
  shape.context = context;
  shape.any_length = any_length;
  shape.input_shape = input_shape;
  shape.convolutions = convolutions;
  shape.padding = padding;
  shape.hidden = hidden;
  shape.labels = labels;
  shape.caches = memory;
  if (heads > 0) shape.caches.push_back({kv_heads, head_dim, 0});
  return shape;
}

Result<std::vector<std::string>> read_labels(const Settings& settings) {
  const SettingName name = {"id2label", ""};
  std::vector<std::string> labels;
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

std::vector<Hyperparameter> hyperparameters(const EncoderConfig& config) {
  const auto number = [](auto value) { return fmt::format("{}", value); };
  std::vector<Hyperparameter> all;
  if (config.kind == InputKind::tokens) {
    all.push_back({"vocabulary", number(config.vocabulary)});
    all.push_back({"token types", number(config.token_types)});
  } else {
    const char* what = config.kind == InputKind::pixels    ? "picture"
                       : config.kind == InputKind::samples ? "samples, at most"
                                                           : "sound";
    all.push_back({what, fmt::format("{}", fmt::join(config.input_shape, " x "))});
  }
  if (config.heads == 0) { // convolutions alone
    all.push_back({"hidden", number(config.hidden)});
    all.push_back({"layers", number(config.layers)});
    if (!config.labels.empty()) all.push_back({"labels", number(config.labels.size())});
    return all;
  }
  const std::vector<Hyperparameter> rest = {
      {"context", number(config.context) + (config.any_length ? ", longer inputs are allowed" : "")},
      {"hidden", number(config.hidden)},
      {"layers", number(config.layers)},
      {"heads", number(config.heads)},
      {"head_dim", number(config.head_dim)},
      {"feed_forward", number(config.feed_forward)},
      {"norm_eps", number(config.norm_eps)},
      {"activation", to_string(config.activation)},
  };
  all.insert(all.end(), rest.begin(), rest.end());
  if (!config.labels.empty()) all.push_back({"labels", number(config.labels.size())});
  return all;
}

} // namespace pumice
