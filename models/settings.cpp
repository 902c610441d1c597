#include "models/settings.h"

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace pumice {

Settings::Settings(const ModelFile& file)
    : file_(file), gguf_(file.format() == ModelFile::Format::gguf), fields_(file.fields()),
      prefix_(gguf_ ? file.architecture() + "." : "") {}

Settings::Settings(const ModelFile& file, Fields fields)
    : file_(file), gguf_(false), fields_(std::move(fields)) {}

Settings Settings::of_text(const ModelFile& file) {
  return file.has_text_fields() ? Settings(file, file.text_fields()) : Settings(file);
}

std::string Settings::architecture() const {
  if (gguf_) return file_.architecture();
  const Result<std::string> type = fields_.string_or("model_type", file_.architecture());
  return type.ok() ? *type : file_.architecture();
}

std::string Settings::name(const SettingName& setting) const {
  return gguf_ ? prefix_ + std::string(setting.gguf) : std::string(setting.hugging_face);
}

bool Settings::names(const SettingName& setting) const {
  return !(gguf_ ? setting.gguf : setting.hugging_face).empty();
}

bool Settings::has(const SettingName& setting) const {
  return names(setting) && fields_.has(name(setting));
}

bool Settings::has_tensor(std::string_view end) const {
  return std::ranges::any_of(file_.tensors(),
                             [&](const TensorView& tensor) { return tensor.name.ends_with(end); });
}

Result<uint32_t> Settings::u32(const SettingName& setting, uint32_t min, uint32_t max) const {
  return fields_.u32(name(setting), min, max);
}

Result<uint32_t> Settings::u32_or(const SettingName& setting, uint32_t min, uint32_t max,
                                  uint32_t fallback) const {
  if (!has(setting)) return fallback;
  return fields_.u32(name(setting), min, max);
}

Result<std::vector<uint32_t>> Settings::u32_each(const SettingName& setting, uint32_t count, uint32_t min,
                                                 uint32_t max, uint32_t fallback) const {
  if (!has(setting)) return std::vector<uint32_t>(count, fallback);
  PUMICE_TRY(std::vector<uint32_t> values, fields_.u32_array(name(setting), min, max));
  if (values.size() == 1) return std::vector<uint32_t>(count, values[0]);
  if (values.size() == count) return values;
  return error(setting, fmt::format("expected one number, or one for each of the {} layers; found {}", count,
                                    values.size()));
}

Result<float> Settings::f32_or(const SettingName& setting, float min, float max, float fallback) const {
  if (!has(setting)) return fallback;
  return fields_.f32(name(setting), min, max);
}

Result<bool> Settings::boolean_or(const SettingName& setting, bool fallback) const {
  if (!has(setting)) return fallback;
  return fields_.boolean(name(setting));
}

Status Settings::expect(std::string_view hugging_face, bool fallback, bool supported) const {
  PUMICE_TRY(bool found, boolean_or({hugging_face, ""}, fallback));
  if (found == supported) return {};
  return Error{Code::unsupported, fmt::format("{}: field '{}': only {} is supported; found {}",
                                              fields_.file(), hugging_face, supported, found)};
}

Result<Activation> Settings::activation_or(const SettingName& setting, Activation fallback) const {
  if (!has(setting)) return fallback;
  PUMICE_TRY(std::string text, fields_.string(name(setting)));
  if (text == "silu" || text == "swish") return Activation::silu;
  if (text == "gelu") return Activation::gelu;
  if (text == "gelu_new" || text == "gelu_pytorch_tanh" || text == "gelu_fast") return Activation::gelu_tanh;
  if (text == "relu") return Activation::relu;
  if (text == "tanh") return Activation::tanh;
  if (text == "quick_gelu") return Activation::quick_gelu;
  return error(
      setting,
      fmt::format(
          "expected one of silu, gelu, gelu_new, gelu_pytorch_tanh, quick_gelu, relu, tanh; found '{}'",
          text));
}

Error Settings::error(const SettingName& setting, std::string_view what) const {
  return fields_.error(name(setting), what);
}

nlohmann::json with_defaults(const ModelFile& file, const char* name, nlohmann::json defaults) {
  const auto found = file.config().find(name);
  if (found != file.config().end() && found->is_object()) defaults.update(*found);
  return defaults;
}

} // namespace pumice
