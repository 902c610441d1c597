#include "models/encoder/config.h"

#include <algorithm>

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
  shape.sound_windows = sound_windows;
  shape.preparation = preparation;
  shape.padding = padding;
  shape.picture_rows = picture_rows;
  shape.causal_from = causal_from;
  shape.tasks = tasks;
  shape.hidden = hidden;
  shape.layers = layers;
  shape.labels = labels;
  shape.token_head = token_head;
  shape.token_labels = token_labels;
  shape.caches = memory;
  if (heads > 0) shape.caches.push_back({kv_heads, head_dim, 0});
  return shape;
}

Result<RotaryConfig> read_rotary(const Settings& settings, const EncoderConfig& config) {
  DecoderConfig same;
  static_cast<StackConfig&>(same) = config;
  return read_rotary(settings, same);
}

namespace {

// The end of the name of the model's class, as config.json has it: "ForTokenClassification".
bool is_class(const Settings& settings, std::string_view ending) {
  const nlohmann::json* names = settings.fields().find("architectures");
  if (!names || !names->is_array()) return false;
  return std::ranges::any_of(*names, [&](const nlohmann::json& name) {
    return name.is_string() && name.get_ref<const std::string&>().ends_with(ending);
  });
}

} // namespace

Result<bool> read_token_head(const Settings& settings, EncoderConfig& config, bool classifies,
                             std::string_view answers) {
  if (settings.gguf()) return false;
  const auto find = [&](std::string_view name) {
    return settings.file().find(std::string(name) + ".weight");
  };
  const TensorView* classifier = find("classifier");
  const bool says_labels = is_class(settings, "ForTokenClassification"),
             says_answers = is_class(settings, "ForQuestionAnswering");
  if (find(answers) && (says_answers || answers != "classifier")) {
    config.token_head = TokenHead::answers;
    config.token_matrix = answers;
    config.token_labels = {"start", "end"};
    return true;
  }
  const bool silent = !classifies && !settings.fields().find("architectures");
  if (!classifier || (!says_labels && !silent)) return false;
  config.token_head = TokenHead::labels;
  config.token_matrix = "classifier";
  PUMICE_TRY(config.token_labels, read_labels(settings, classifier));
  return true;
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
  if (config.token_head == TokenHead::labels)
    all.push_back({"labels of tokens", number(config.token_labels.size())});
  if (config.token_head == TokenHead::answers) all.push_back({"finds", "answers to questions"});
  return all;
}

} // namespace pumice
