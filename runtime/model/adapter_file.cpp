#include "model/adapter_file.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <optional>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "base/path.h"
#include "io/bytes.h"
#include "io/formats/safetensors.h"
#include "io/json_text.h"
#include "io/model_file.h"
#include "io/tensor_floats.h"
#include "text/unicode/regex.h"

namespace pumice {

namespace {

constexpr const char* config_name = "adapter_config.json";
constexpr const char* weights_name = "adapter_model.safetensors";
constexpr uint32_t largest_rank = 4096;

// One of the two matrices of a pair, as the file has it.
struct Half {
  std::string name;
  TensorType type = TensorType::f32;
  std::vector<uint64_t> shape;
  std::vector<float> values;
};
struct Halves {
  std::optional<Half> down, up;
};

Error refuse(const std::string& file, const std::string& what) {
  return {Code::unsupported, fmt::format("{}: {}", file, what)};
}

std::string shown(const std::vector<uint64_t>& shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

Status check_finite(const std::string& file, const Half& half) {
  const auto odd = std::ranges::find_if(half.values, [](float each) { return !std::isfinite(each); });
  if (odd == half.values.end()) return {};
  return Error{Code::invalid_file, fmt::format("{}: tensor '{}': element {} is {}: expected finite numbers",
                                               file, half.name, odd - half.values.begin(), *odd)};
}

// The type of all of an adapter's numbers, where it is one of 16 bits.
TensorType common_type(const std::map<std::string, Halves>& all) {
  std::optional<TensorType> type;
  for (const auto& [name, halves] : all) {
    for (const std::optional<Half>* half : {&halves.down, &halves.up}) {
      if (!*half) continue;
      if (type && *type != (*half)->type) return TensorType::f32;
      type = (*half)->type;
    }
  }
  return type == TensorType::f16 || type == TensorType::bf16 ? *type : TensorType::f32;
}

// Checks that the halves fit each other.
Result<AdapterPair> pair_of(const std::string& file, const std::string& name, Halves halves) {
  if (!halves.down || !halves.up) {
    return Error{Code::invalid_file,
                 fmt::format("{}: tensor '{}' has no other half: expected both of a pair (A and B) for '{}'",
                             file, (halves.down ? halves.down : halves.up)->name, name)};
  }
  Half& down = *halves.down;
  Half& up = *halves.up;
  // llama.cpp leaves out a last dimension of 1.
  if (down.shape.size() == 1) down.shape.insert(down.shape.begin(), 1);
  const auto check = [&](const Half& half) -> Status {
    const auto fits = [](uint64_t size) { return size > 0 && size <= INT32_MAX; };
    if (half.shape.size() == 2 && fits(half.shape[0]) && fits(half.shape[1])) return {};
    return Error{Code::invalid_file, fmt::format("{}: tensor '{}': expected a matrix, found the shape {}",
                                                 file, half.name, shown(half.shape))};
  };
  PUMICE_CHECK(check(down));
  PUMICE_CHECK(check(up));
  if (down.shape[0] != up.shape[1]) {
    return Error{
        Code::invalid_file,
        fmt::format("{}: tensor '{}' has the shape {} and '{}' {}: the first number of one, the rank, "
                    "must be the second of the other",
                    file, down.name, shown(down.shape), up.name, shown(up.shape))};
  }
  if (down.shape[0] > largest_rank) {
    return refuse(
        file, fmt::format("tensor '{}': the rank {} is above {}", down.name, down.shape[0], largest_rank));
  }
  PUMICE_CHECK(check_finite(file, down));
  PUMICE_CHECK(check_finite(file, up));
  AdapterPair pair;
  pair.name = name;
  pair.down_name = down.name;
  pair.rank = static_cast<uint32_t>(down.shape[0]);
  pair.columns = static_cast<uint32_t>(down.shape[1]);
  pair.rows = static_cast<uint32_t>(up.shape[0]);
  pair.down = std::move(down.values);
  pair.up = std::move(up.values);
  return pair;
}

bool take_end(std::string& text, std::string_view end) {
  if (!text.ends_with(end)) return false;
  text.resize(text.size() - end.size());
  return true;
}

// The settings of a PEFT adapter that say what its numbers mean.
class PeftConfig {
public:
  static Result<PeftConfig> read(const std::filesystem::path& path) {
    PUMICE_TRY(MappedFile file, MappedFile::open(path));
    PUMICE_TRY(nlohmann::json object, parse_json_object(file.bytes(), file.path()));
    PUMICE_TRY(nlohmann::ordered_json ordered, parse_ordered_json(as_text(file.bytes()), file.path()));
    PeftConfig config;
    config.file_ = file.path();
    config.object_ = std::make_unique<nlohmann::json>(std::move(object));
    const Fields fields(*config.object_, config.file_);
    PUMICE_CHECK(config.check(fields));
    PUMICE_TRY(config.rank_, fields.u32("r", 1, largest_rank));
    PUMICE_TRY(config.alpha_, fields.f32_or("lora_alpha", 8)); // PEFT's own default
    PUMICE_TRY(config.stabilized_, fields.boolean_or("use_rslora", false));
    PUMICE_CHECK(config.read_pattern(ordered, "rank_pattern", config.ranks_));
    PUMICE_CHECK(config.read_pattern(ordered, "alpha_pattern", config.alphas_));
    return config;
  }

  Result<float> scaling(const std::string& module, const std::string& tensor, uint32_t rank) const {
    const auto of = [&](const Pattern& pattern, double otherwise) {
      for (const auto& [regex, value] : pattern) {
        const auto found = regex.matches(module);
        if (!found.empty() && found[0].begin == 0 && found[0].end == module.size()) return value;
      }
      return otherwise;
    };
    if (const double expected = of(ranks_, rank_); expected != rank) {
      return Error{Code::invalid_file,
                   fmt::format("{}: field '{}' says that the rank of '{}' is {}, and tensor '{}' has {}",
                               file_, expected == rank_ ? "r" : "rank_pattern", module, expected, tensor,
                               rank)};
    }
    return static_cast<float>(of(alphas_, alpha_) / (stabilized_ ? std::sqrt(double{1} * rank) : rank));
  }

private:
  using Pattern = std::vector<std::pair<text::Regex, double>>;

  Status check(const Fields& fields) const {
    PUMICE_TRY(const std::string type, fields.string_or("peft_type", "LORA"));
    if (type != "LORA")
      return refuse(file_, fmt::format("field 'peft_type': expected \"LORA\", found \"{}\"", type));
    for (const char* name : {"use_dora", "lora_bias", "use_qalora"}) {
      PUMICE_TRY(const bool used, fields.boolean_or(name, false));
      if (used) return refuse(file_, fmt::format("field '{}' is true: that is not supported", name));
    }
    PUMICE_TRY(const std::string bias, fields.string_or("bias", "none"));
    if (bias != "none") {
      return refuse(file_, fmt::format("field 'bias' is \"{}\": biases that were trained with an adapter are "
                                       "not supported",
                                       bias));
    }
    for (const char* name : {"modules_to_save", "trainable_token_indices", "alora_invocation_tokens",
                             "target_parameters", "layer_replication", "megatron_config"}) {
      const nlohmann::json* value = fields.find(name);
      if (value && !value->empty())
        return refuse(file_, fmt::format("field '{}' is {}: that is not supported", name, describe(*value)));
    }
    // These begin with other weights of the model than those of its own file.
    const nlohmann::json* begun = fields.find("init_lora_weights");
    for (const char* name : {"pissa", "olora", "loftq", "corda"}) {
      if (begun && begun->is_string() && begun->get<std::string>().starts_with(name)) {
        return refuse(file_,
                      fmt::format("field 'init_lora_weights' is {}: such an adapter changes the model's "
                                  "weights; save it as a usual one",
                                  describe(*begun)));
      }
    }
    return {};
  }

  Status read_pattern(const nlohmann::ordered_json& object, const char* name, Pattern& pattern) const {
    if (!object.contains(name) || object[name].is_null()) return {};
    const auto wrong = [&](const std::string& found) {
      return Error{Code::invalid_file,
                   fmt::format("{}: field '{}': expected an object with numbers above 0, found {}", file_,
                               name, found)};
    };
    if (!object[name].is_object()) return wrong(object[name].dump());
    for (const auto& [key, value] : object[name].items()) {
      if (!value.is_number() || !(value.get<double>() > 0)) return wrong(value.dump());
      Result<text::Regex> regex = text::Regex::compile("^(?:.*\\.)?(?:" + key + ")$");
      if (!regex.ok())
        return Error{Code::invalid_file,
                     fmt::format("{}: field '{}': {}", file_, name, regex.error().message)};
      pattern.emplace_back(*std::move(regex), value.get<double>());
    }
    return {};
  }

  std::string file_;
  std::unique_ptr<nlohmann::json> object_;
  uint32_t rank_ = 0;
  float alpha_ = 0;
  bool stabilized_ = false;
  Pattern ranks_, alphas_;
};

// The module that a tensor of PEFT belongs to, and which half it is.
struct PeftName {
  std::string module;
  bool down = false;
};
Result<PeftName> peft_name(const std::string& file, const std::string& tensor) {
  PeftName name{tensor};
  constexpr std::string_view begin = "base_model.model.";
  if (name.module.starts_with(begin)) name.module.erase(0, begin.size());
  if (take_end(name.module, ".lora_A.weight") || take_end(name.module, ".lora_A.default.weight"))
    return PeftName{name.module, true};
  if (take_end(name.module, ".lora_B.weight") || take_end(name.module, ".lora_B.default.weight")) return name;
  const auto has = [&](std::string_view part) { return tensor.find(part) != tensor.npos; };
  const char* what = has("lora_embedding_")   ? "adapters of embeddings are not supported"
                     : has("lora_magnitude_") ? "DoRA is not supported"
                     : has(".lora_")          ? "expected names that end in .lora_A.weight or .lora_B.weight"
                                              : "whole tensors beside an adapter are not supported";
  return refuse(file, fmt::format("tensor '{}': {}", tensor, what));
}

Result<AdapterFile> read_peft(const std::filesystem::path& folder) {
  PUMICE_TRY(const PeftConfig config, PeftConfig::read(folder / config_name));
  if (!std::filesystem::exists(folder / weights_name) &&
      std::filesystem::exists(folder / "adapter_model.bin")) {
    return refuse(path_text(folder / "adapter_model.bin"),
                  fmt::format("adapters are read from {}: save it in that format", weights_name));
  }
  PUMICE_TRY(const SafetensorsFile tensors, SafetensorsFile::open(folder / weights_name));
  const std::string& path = tensors.file.path();
  std::map<std::string, Halves> all;
  for (const SafetensorsFile::Entry& entry : tensors.entries) {
    PUMICE_TRY(PeftName name, peft_name(path, entry.name));
    const Result<std::vector<float>> values = SafetensorsFile::floats(entry);
    if (!values.ok()) return Error{values.error().code, fmt::format("{}: {}", path, values.error().message)};
    const TensorTypeInfo* type = find_safetensors_type(entry.dtype);
    Halves& halves = all[name.module];
    (name.down ? halves.down : halves.up) =
        Half{entry.name, type ? type->type : TensorType::f32, entry.shape, *values};
  }
  AdapterFile file;
  file.numbers = common_type(all);
  file.path = path_text(folder);
  for (auto& [module, halves] : all) {
    PUMICE_TRY(AdapterPair pair, pair_of(path, module, std::move(halves)));
    PUMICE_TRY(pair.scaling, config.scaling(module, pair.down_name, pair.rank));
    file.pairs.push_back(std::move(pair));
  }
  return file;
}

Result<AdapterFile> read_gguf(const std::filesystem::path& path) {
  PUMICE_TRY(const ModelFile gguf, ModelFile::open(path));
  AdapterFile file;
  file.path = gguf.path();
  file.gguf_names = true;
  const Fields fields = gguf.fields();
  PUMICE_TRY(const std::string type, fields.string_or("general.type", "model"));
  if (type != "adapter") {
    return Error{
        Code::invalid_file,
        fmt::format("{}: field 'general.type': expected \"adapter\", found \"{}\": this is no adapter",
                    file.path, type)};
  }
  PUMICE_TRY(const std::string kind, fields.string("adapter.type"));
  if (kind != "lora")
    return refuse(file.path, fmt::format("field 'adapter.type': expected \"lora\", found \"{}\"", kind));
  if (gguf.array("adapter.alora.invocation_tokens") || fields.has("adapter.alora.invocation_tokens")) {
    return refuse(file.path,
                  "field 'adapter.alora.invocation_tokens': adapters that begin in the middle of a "
                  "text are not supported");
  }
  PUMICE_TRY(const float alpha, fields.f32_or("adapter.lora.alpha", 0));
  if (const std::vector<std::string> odd = gguf.unreadable(); !odd.empty())
    return refuse(file.path, fmt::format("tensor '{}' has a type that is not supported", odd[0]));
  std::map<std::string, Halves> all;
  for (const TensorView& tensor : gguf.tensors()) {
    std::string name = tensor.name;
    const bool down = take_end(name, ".lora_a");
    if (!down && !take_end(name, ".lora_b")) {
      return refuse(file.path,
                    fmt::format("tensor '{}': expected names that end in .lora_a or .lora_b; whole "
                                "tensors beside an adapter are not supported",
                                tensor.name));
    }
    take_end(name, ".weight");
    Halves& halves = all[name];
    (down ? halves.down : halves.up) = Half{tensor.name, tensor.type, tensor.shape, tensor_floats(tensor)};
  }
  file.numbers = common_type(all);
  for (auto& [name, halves] : all) {
    PUMICE_TRY(AdapterPair pair, pair_of(file.path, name, std::move(halves)));
    if (alpha != 0) pair.scaling = alpha / static_cast<float>(pair.rank); // as llama.cpp has it
    file.pairs.push_back(std::move(pair));
  }
  return file;
}

} // namespace

Result<AdapterFile> AdapterFile::read(const std::filesystem::path& path) {
  std::error_code failed;
  const bool folder = std::filesystem::is_directory(path, failed);
  const bool part = path.filename() == config_name || path.filename() == weights_name;
  if (folder && !std::filesystem::exists(path / config_name, failed)) {
    return Error{Code::not_found,
                 fmt::format("{}: there is no {}: expected a folder with it and {}, or a GGUF file",
                             path_text(path), config_name, weights_name)};
  }
  PUMICE_TRY(AdapterFile file, folder ? read_peft(path)
                               : part ? read_peft(path.parent_path())
                                      : read_gguf(path));
  if (file.pairs.empty()) {
    return Error{Code::invalid_file,
                 fmt::format("{}: it has no tensors: expected pairs of an adapter's matrices", file.path)};
  }
  return file;
}

} // namespace pumice
