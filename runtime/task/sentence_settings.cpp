#include "task/sentence_settings.h"

#include <cmath>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "io/formats/safetensors.h"
#include "io/json_text.h"
#include "io/mapped_file.h"
#include "io/weight_view.h"

namespace pumice {

namespace {

// A file's JSON; nothing if there is no such file.
Result<std::optional<nlohmann::json>> read_json(const ModelFolder& folder, const std::string& name) {
  if (!folder.has(name)) return std::optional<nlohmann::json>();
  PUMICE_TRY(const MappedFile file, folder.open(name));
  PUMICE_TRY(nlohmann::json json, parse_json(file.bytes(), file.path()));
  return std::optional<nlohmann::json>(std::move(json));
}

Result<nlohmann::json> require_object(const ModelFolder& folder, const std::string& name) {
  PUMICE_TRY(const MappedFile file, folder.open(name));
  return parse_json_object(file.bytes(), file.path());
}

// A file of a module, which has a folder of its own or is in the model's.
std::string file_of(const std::string& module, const char* name) {
  return module.empty() ? name : fmt::format("{}/{}", module, name);
}

constexpr std::pair<const char*, const char*> pooling_modes[] = {
    {"pooling_mode_mean_tokens", "mean"},
    {"pooling_mode_cls_token", "cls"},
    {"pooling_mode_lasttoken", "last"},
};

Result<std::string> read_pooling(const ModelFolder& folder, const std::string& file) {
  PUMICE_TRY(const nlohmann::json json, require_object(folder, file));
  const Fields fields(json, folder.path(file));
  PUMICE_TRY(const bool with_prompt, fields.boolean_or("include_prompt", true));
  if (!with_prompt) {
    return fields.error("include_prompt", "expected true: leaving a prompt's tokens out is not supported");
  }
  std::string pooling;
  for (const auto& [name, value] : json.items()) {
    if (!name.starts_with("pooling_mode_") || value != true) continue;
    const auto* known =
        std::find_if(std::begin(pooling_modes), std::end(pooling_modes),
                     [key = std::string_view(name)](const auto& mode) { return key == mode.first; });
    if (known == std::end(pooling_modes)) {
      return Error{
          Code::unsupported,
          fmt::format("{}: the model combines the vectors of its tokens by '{}', which Pumice cannot "
                      "do: choose --pooling mean, --pooling cls or --pooling last",
                      fields.file(), name)};
    }
    if (!pooling.empty()) {
      return Error{Code::unsupported,
                   fmt::format("{}: the settings name two ways to combine the vectors of the tokens: choose "
                               "--pooling mean, --pooling cls or --pooling last",
                               fields.file())};
    }
    pooling = known->second;
  }
  return pooling.empty() ? std::string("mean") : pooling;
}

Result<DenseLayer> read_dense(const ModelFolder& folder, const std::string& module) {
  const std::string settings = file_of(module, "config.json");
  PUMICE_TRY(const nlohmann::json json, require_object(folder, settings));
  const Fields fields(json, folder.path(settings));
  DenseLayer layer;
  PUMICE_TRY(layer.inputs, fields.u32("in_features", 1, 1 << 20));
  PUMICE_TRY(layer.outputs, fields.u32("out_features", 1, 1 << 20));
  PUMICE_TRY(const bool bias, fields.boolean_or("bias", true));
  PUMICE_TRY(const bool residual, fields.boolean_or("use_residual", false));
  if (residual) return fields.error("use_residual", "expected false: a residual is not supported");
  PUMICE_TRY(const std::string activation,
             fields.string_or("activation_function", "torch.nn.modules.activation.Tanh"));
  layer.tanh = activation.ends_with(".Tanh");
  if (!layer.tanh && !activation.ends_with(".Identity")) {
    return fields.error("activation_function",
                        fmt::format("expected one of Identity, Tanh; found '{}'", activation));
  }
  PUMICE_TRY(const MappedFile weights, folder.open(file_of(module, "model.safetensors")));
  PUMICE_TRY(const SafetensorsFile file, SafetensorsFile::parse(weights.bytes(), weights.path()));
  const auto read = [&](const char* name, std::vector<uint64_t> shape) -> Result<std::vector<float>> {
    const SafetensorsFile::Entry* entry = file.find(name);
    if (entry && entry->shape == shape) return SafetensorsFile::floats(*entry);
    return Error{Code::invalid_file,
                 fmt::format("{}: tensor '{}': expected the shape [{}]; {}", weights.path(), name,
                             fmt::join(shape, ", "),
                             entry ? fmt::format("found [{}]", fmt::join(entry->shape, ", "))
                                   : std::string("it is missing"))};
  };
  PUMICE_TRY(layer.weight, read("linear.weight", {layer.outputs, layer.inputs}));
  if (bias) {
    PUMICE_TRY(layer.bias, read("linear.bias", {layer.outputs}));
  }
  return layer;
}

// How the logits of a text's tokens become one sparse vector.
Status check_sparse_pooling(const ModelFolder& folder, const std::string& module) {
  const std::string name = file_of(module, "config.json");
  PUMICE_TRY(const nlohmann::json json, require_object(folder, name));
  const Fields fields(json, folder.path(name));
  for (const auto& [field, known] : {std::pair("pooling_strategy", "max"), {"activation_function", "relu"}}) {
    PUMICE_TRY(const std::string found, fields.string_or(field, known));
    if (found == known) continue;
    Error error = fields.error(field, fmt::format("expected {}; found '{}'", known, found));
    error.code = Code::unsupported;
    return error;
  }
  return {};
}

// The modules that follow the transformer, in order.
Status read_modules(const ModelFolder& folder, const nlohmann::json& modules, const std::string& pooling,
                    SentenceSettings& settings) {
  const std::string file = folder.path("modules.json");
  settings.normalized = false;
  if (!modules.is_array()) return Error{Code::invalid_file, file + ": expected a list of modules"};
  for (const nlohmann::json& each : modules) {
    if (!each.is_object()) return Error{Code::invalid_file, file + ": expected a list of objects"};
    const Fields fields(each, file);
    PUMICE_TRY(const std::string type, fields.string("type"));
    PUMICE_TRY(const std::string path, fields.string_or("path", ""));
    if (type.ends_with(".Transformer") || type.ends_with(".MLMTransformer")) continue;
    if (type.ends_with(".SpladePooling")) {
      PUMICE_CHECK(check_sparse_pooling(folder, path));
      settings.sparse = true;
      continue;
    }
    if (type.ends_with(".Pooling")) {
      settings.pooling = pooling;
      if (!pooling.empty()) continue;
      PUMICE_TRY(settings.pooling, read_pooling(folder, file_of(path, "config.json")));
    } else if (type.ends_with(".Dense") && !settings.normalized) {
      PUMICE_TRY(DenseLayer layer, read_dense(folder, path));
      settings.dense.push_back(std::move(layer));
    } else if (type.ends_with(".Normalize")) {
      settings.normalized = true;
    } else {
      return fields.error("type", fmt::format("expected Transformer, Pooling, Dense and Normalize, in this "
                                              "order, or MLMTransformer and SpladePooling; found '{}'",
                                              type));
    }
  }
  return {};
}

Status read_prompts(const ModelFolder& folder, SentenceSettings& settings) {
  constexpr const char* file = "config_sentence_transformers.json";
  PUMICE_TRY(const std::optional<nlohmann::json> json, read_json(folder, file));
  if (!json) return {};
  const Fields fields(*json, folder.path(file));
  if (const nlohmann::json* prompts = fields.find("prompts")) {
    if (!prompts->is_object()) return fields.error("prompts", "expected an object of texts");
    for (const auto& [name, text] : prompts->items()) {
      if (!text.is_string()) return fields.error("prompts", fmt::format("expected a text for '{}'", name));
      settings.prompts[name] = text.get<std::string>();
    }
  }
  PUMICE_TRY(settings.default_prompt, fields.string_or("default_prompt_name", ""));
  if (settings.default_prompt.empty() || settings.prompts.count(settings.default_prompt)) return {};
  return fields.error("default_prompt_name",
                      fmt::format("expected the name of a prompt; found '{}'", settings.default_prompt));
}

Status read_length(const ModelFolder& folder, SentenceSettings& settings) {
  constexpr const char* file = "sentence_bert_config.json";
  PUMICE_TRY(const std::optional<nlohmann::json> json, read_json(folder, file));
  if (!json) return {};
  const Fields fields(*json, folder.path(file));
  PUMICE_TRY(settings.max_tokens, fields.u32_or("max_seq_length", 0));
  PUMICE_TRY(const bool lower, fields.boolean_or("do_lower_case", false));
  if (!lower) return {};
  return fields.error("do_lower_case",
                      "expected false: the tokenizer's own settings say what becomes of case");
}

Result<SentenceSettings> read_folder(const ModelFolder& folder, const std::string& pooling) {
  SentenceSettings settings;
  settings.pooling = pooling;
  PUMICE_TRY(const std::optional<nlohmann::json> modules, read_json(folder, "modules.json"));
  constexpr const char* pooling_file = "1_Pooling/config.json";
  if (modules) {
    PUMICE_CHECK(read_modules(folder, *modules, pooling, settings));
    settings.of_tokens = settings.pooling.empty() && !settings.dense.empty();
  } else if (pooling.empty() && folder.has(pooling_file)) {
    PUMICE_TRY(settings.pooling, read_pooling(folder, pooling_file));
  }
  PUMICE_CHECK(read_prompts(folder, settings));
  PUMICE_CHECK(read_length(folder, settings));
  return settings;
}

// llama.cpp's numbers of the ways to pool, and its names of EmbeddingGemma's dense layers.
Result<SentenceSettings> read_gguf(const ModelFile& file, const std::string& pooling) {
  constexpr const char* ways[] = {"", "mean", "cls", "last", ""};
  SentenceSettings settings;
  PUMICE_TRY(const uint32_t type,
             file.fields().u32_or(file.architecture() + ".pooling_type", 0, std::size(ways) - 1, 0));
  settings.pooling = pooling.empty() ? ways[type] : pooling;
  for (const char* name : {"dense_2.weight", "dense_3.weight"}) {
    const TensorView* tensor = file.find(name);
    if (!tensor) continue;
    if (tensor->shape.size() != 2)
      return Error{Code::invalid_file, fmt::format("{}: tensor '{}': expected a matrix", file.path(), name)};
    DenseLayer layer;
    layer.outputs = static_cast<uint32_t>(tensor->shape[0]);
    layer.inputs = static_cast<uint32_t>(tensor->shape[1]);
    layer.weight = decode_vector(WeightView::whole(*tensor));
    settings.dense.push_back(std::move(layer));
  }
  return settings;
}

std::vector<float> apply_layer(const DenseLayer& layer, const std::vector<float>& x) {
  std::vector<float> y(layer.outputs);
  for (uint32_t row = 0; row < layer.outputs; ++row) {
    double sum = layer.bias.empty() ? 0.0 : layer.bias[row];
    for (uint32_t i = 0; i < layer.inputs; ++i)
      sum += double{layer.weight[size_t{row} * layer.inputs + i]} * x[i];
    y[row] = static_cast<float>(layer.tanh ? std::tanh(sum) : sum);
  }
  return y;
}

} // namespace

Result<SentenceSettings> read_sentence_settings(const ModelFile& file, const std::string& pooling) {
  return file.format() == ModelFile::Format::gguf ? read_gguf(file, pooling)
                                                  : read_folder(file.folder(), pooling);
}

std::string pooled_tensor(const SentenceSettings& settings, const EncoderShape& shape) {
  if (!settings.pooling.empty()) return "pooled_" + settings.pooling;
  return shape.causal ? "pooled_last" : "pooled_mean";
}

Result<std::string> SentenceSettings::prompt(const std::string& model, const std::string& name) const {
  const std::string& wanted = name.empty() ? default_prompt : name;
  if (wanted.empty()) return std::string();
  if (const auto found = prompts.find(wanted); found != prompts.end()) return found->second;
  std::string names;
  for (const auto& [known, text] : prompts) names += (names.empty() ? "" : ", ") + known;
  return Error{Code::invalid_argument,
               fmt::format("{} has no prompt '{}': {}", model, wanted,
                           names.empty() ? "its settings have none (config_sentence_transformers.json); use "
                                           "--prefix to put a text before each line"
                                         : "choose one of " + names)};
}

std::string SentenceSettings::first_prompt(const std::vector<std::string_view>& names) const {
  for (std::string_view name : names) {
    if (const auto found = prompts.find(std::string(name)); found != prompts.end()) return found->second;
  }
  const auto found = prompts.find(default_prompt);
  return found == prompts.end() ? std::string() : found->second;
}

std::vector<float> finish_vector(const SentenceSettings& settings, std::vector<float> pooled,
                                 uint32_t dimensions, bool normalized) {
  for (const DenseLayer& layer : settings.dense) pooled = apply_layer(layer, pooled);
  if (dimensions > 0 && dimensions < pooled.size()) pooled.resize(dimensions);
  if (!normalized) return pooled;
  double squares = 0;
  for (float x : pooled) squares += double{x} * x;
  const double length = std::max(std::sqrt(squares), 1e-12);
  for (float& x : pooled) x = static_cast<float>(x / length);
  return pooled;
}

} // namespace pumice
