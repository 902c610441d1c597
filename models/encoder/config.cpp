#include "models/encoder/config.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "models/decoder/config.h"
#include "models/decoder/rotary.h"

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
  shape.patch_groups = patch_groups;
  shape.preparation = preparation;
  shape.padding = padding;
  shape.hidden = hidden;
  shape.layers = layers;
  shape.labels = labels;
  shape.caches = memory;
  if (heads > 0) shape.caches.push_back({kv_heads, head_dim, 0});
  return shape;
}

Result<RotaryConfig> read_rotary(const Settings& settings, const EncoderConfig& config) {
  DecoderConfig same;
  static_cast<StackConfig&>(same) = config;
  return read_rotary(settings, same);
}

Status refuse_decoder(const Settings& settings) {
  PUMICE_TRY(bool decoder, settings.boolean_or({"is_decoder", ""}, false));
  if (!decoder) return {};
  return settings.error({"is_decoder", ""}, "expected false, because the model is an encoder; found true");
}

std::vector<Hyperparameter> hyperparameters(const EncoderConfig& config) {
  const auto number = [](auto value) { return fmt::format("{}", value); };
  std::vector<Hyperparameter> all;
  if (config.kind == InputKind::tokens) {
    all.push_back({"vocabulary", number(config.vocabulary)});
    all.push_back({"token types", number(config.token_types)});
  } else {
    const char* what = config.kind == InputKind::pixels    ? "picture"
                       : config.kind == InputKind::patches ? "patch"
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
  if (config.embedding) all.push_back({"embedding", number(config.embedding)});
  if (config.rotary.pairs != RotaryPairs::none) all.push_back({"rotary", describe(config.rotary)});
  if (!config.windows.empty()) all.push_back({"windows", fmt::format("{}", fmt::join(config.windows, " "))});
  if (!config.labels.empty()) all.push_back({"labels", number(config.labels.size())});
  return all;
}

} // namespace pumice
