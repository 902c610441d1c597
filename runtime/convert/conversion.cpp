#include "convert/conversion.h"

#include <algorithm>

#include <fmt/format.h>

#include "convert/folder_conversion.h"
#include "convert/gguf_output.h"
#include "convert/vocabulary_keys.h"
#include "model/gguf_model.h"

namespace pumice {

namespace {

using nlohmann::json;

constexpr uint32_t quantization_version = 2; // the version of the block layouts

Status add_value(GgufWriter& writer, const std::string& key, const json& value) {
  if (value.is_boolean()) {
    writer.add(key, value.get<bool>());
  } else if (value.is_number_unsigned()) {
    writer.add(key, value.get<uint32_t>());
  } else if (value.is_number_integer()) {
    writer.add(key, value.get<int32_t>());
  } else if (value.is_number_float()) {
    writer.add(key, value.get<float>());
  } else if (value.is_string()) {
    writer.add(key, value.get_ref<const std::string&>());
  } else {
    return Error{Code::internal,
                 fmt::format("field '{}': {} cannot be a value of a GGUF file", key, value.dump())};
  }
  return {};
}

template <class T>
void add_values(GgufWriter& writer, const std::string& key, const json& values) {
  std::vector<T> all;
  for (const json& value : values) all.push_back(value.get<T>());
  writer.add_array(key, std::span<const T>(all));
}

Status add_setting(GgufWriter& writer, const std::string& key, const json& value) {
  if (!value.is_array()) return add_value(writer, key, value);
  const auto all = [&](auto is) { return std::ranges::all_of(value, is); };
  if (all([](const json& each) { return each.is_boolean(); })) {
    std::vector<uint8_t> flags;
    for (const json& each : value) flags.push_back(each.get<bool>());
    writer.add_flags(key, flags);
  } else if (all([](const json& each) { return each.is_number_integer(); })) {
    // As llama.cpp's converter does: parts of llama.cpp read no others.
    add_values<int32_t>(writer, key, value);
  } else if (all([](const json& each) { return each.is_number(); })) {
    add_values<float>(writer, key, value);
  } else if (all([](const json& each) { return each.is_string(); })) {
    add_values<std::string>(writer, key, value);
  } else {
    return Error{Code::internal,
                 fmt::format("field '{}': {} cannot be a value of a GGUF file", key, value.dump())};
  }
  return {};
}

// The name of the model's folder.
std::string folder_name(const std::string& path) {
  std::error_code error;
  const std::filesystem::path given = path_of(path);
  const std::filesystem::path folder = std::filesystem::canonical(given, error);
  return path_text((error ? given : folder).filename());
}

// Tokens that the model has rows for.
uint32_t vocabulary_of(const ModelDefinition& definition) {
  const ModelShape shape = definition.shape();
  return shape.encoder && !shape.has_decoder() ? shape.encoder->vocabulary : shape.vocabulary;
}

Status add_settings(const GgufModel& model, const ModelFile& file, const ModelDefinition& definition,
                    const Mixture& mixture, GgufWriter& writer) {
  json settings = {{"general.type", "model"}, {"general.name", folder_name(file.path())}};
  if (const uint32_t rows = vocabulary_of(definition); rows > 0)
    settings[model.architecture + ".vocab_size"] = rows;
  if (model.metadata.is_object()) settings.update(model.metadata);
  writer.add("general.architecture", model.architecture); // first, as readers expect
  for (const auto& [key, value] : settings.items()) PUMICE_CHECK(add_setting(writer, key, value));
  writer.add("general.file_type", mixture.file_type);
  writer.add("general.quantization_version", quantization_version);
  return {};
}

WrittenType choose_type(const MixtureTypes& types, const GgufTensor& tensor, TensorType requested) {
  const auto ends_with = [&](std::string_view end) { return tensor.name.ends_with(end); };
  // llama.cpp convolves with these two types only, and uses the other matrix transposed.
  if (ends_with("patch_embd.weight") || ends_with("patch_embd.weight.1"))
    return {requested == TensorType::f16 ? TensorType::f16 : TensorType::f32};
  // It convolves sounds with F16 alone.
  if (ends_with("mm.input_projection.weight") || ends_with("conv1d.1.weight") || ends_with("conv1d.2.weight"))
    return {requested == TensorType::f32 ? TensorType::f32 : TensorType::f16};
  // These are small, and small errors in them have a large effect.
  if (tensor.shape.size() < 2 || ends_with(".bias") || ends_with("ffn_gate_inp.weight") ||
      ends_with("ssm_a") || ends_with("ssm_d") || ends_with("conv1d.weight") || ends_with("conv.weight") ||
      ends_with("norm.weight") || ends_with("position_embd.weight") || ends_with("token_types.weight"))
    return {};
  return types.of(tensor.name, tensor.shape.size() > 2, tensor.shape.back());
}

// Of the tensor that it is made of.
TensorType type_before(const GgufTensor& tensor) {
  return tensor.parts.empty() ? TensorType::f32 : tensor.parts.front().type();
}

} // namespace

Result<Conversion> convert_to_gguf(const ModelFile& file, const ModelDefinition& definition,
                                   const std::filesystem::path& path, const ConversionOptions& options,
                                   const Progress& progress) {
  const Result<GgufModel> made = definition.gguf(file);
  const bool can_be_folder = fits_as_folder(file, definition);
  const auto as_folder = [&](const std::string& why) {
    return convert_folder(file, definition, path, options, progress, why);
  };
  if (!made.ok()) {
    if (made.error().code != Code::unsupported || !can_be_folder) return made.error();
    return as_folder(fmt::format("{}: llama.cpp has no form for models of the architecture '{}'", file.path(),
                                 file.architecture()));
  }
  if (can_be_folder) {
    if (const std::string why = needs_folder(file, options.vocabulary); !why.empty()) return as_folder(why);
  }
  const GgufModel& model = *made;
  Conversion conversion;
  // Before anything is written: what has no form of llama.cpp's shows here.
  if (const uint32_t rows = vocabulary_of(definition); rows > 0) {
    GgufWriter tried;
    const Status added = add_vocabulary(file, rows, options.vocabulary, tried, conversion.notes);
    if (!added.ok() && added.error().code == Code::unsupported && can_be_folder)
      return as_folder(added.error().message);
    PUMICE_CHECK(added);
  }
  const auto settings = [&](GgufWriter& writer) -> Status {
    PUMICE_CHECK(add_settings(model, file, definition, options.mixture, writer));
    std::vector<std::string> said;
    const uint32_t rows = vocabulary_of(definition);
    return rows > 0 ? add_vocabulary(file, rows, options.vocabulary, writer, said) : Status();
  };
  std::vector<std::string> names;
  for (const GgufTensor& tensor : model.tensors) names.push_back(tensor.name);
  const MixtureTypes types(options.mixture, options.rules, model.architecture, model.metadata, names,
                           options.importance != nullptr);
  std::vector<OutputTensor> tensors;
  size_t fallen_back = 0;
  for (const GgufTensor& tensor : model.tensors) {
    const WrittenType chosen = choose_type(types, tensor, options.mixture.type);
    fallen_back += chosen.fell_back;
    tensors.push_back({tensor, type_before(tensor), chosen.type});
  }
  if (fallen_back > 0)
    conversion.notes.push_back(
        fallback_note(file.path(), fallen_back, model.tensors.size(), options.mixture.type));
  PUMICE_CHECK(write_gguf(file, path, options, false, settings, tensors, progress, conversion));
  return conversion;
}

} // namespace pumice
