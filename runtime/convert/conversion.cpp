#include "convert/conversion.h"

#include <algorithm>

#include <fmt/format.h>

#include "convert/tensor_rows.h"
#include "convert/vocabulary_keys.h"
#include "io/quantize.h"
#include "model/gguf_model.h"

namespace pumice {

namespace {

using nlohmann::json;

// The types that can be written, and llama.cpp's numbers (general.file_type) for files that are mostly of
// that type.
struct FileType {
  std::string_view name;
  uint32_t number;
};
constexpr FileType file_types[] = {{"F32", 0},  {"F16", 1},   {"BF16", 32}, {"Q8_0", 7},
                                   {"Q4_0", 2}, {"Q4_K", 14}, {"Q6_K", 18}};

constexpr uint32_t quantization_version = 2; // the version of the block layouts

const TensorTypeInfo* type_of(const FileType& file_type) {
  const TensorTypeInfo* type = find_type_named(file_type.name);
  return type && can_quantize(type->type) ? type : nullptr;
}

uint32_t file_type_number(TensorType type) {
  return std::ranges::find(file_types, info(type).name, &FileType::name)->number;
}

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
  } else if (all([](const json& each) { return each.is_number_unsigned(); })) {
    add_values<uint32_t>(writer, key, value);
  } else if (all([](const json& each) { return each.is_number_integer(); })) {
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
                    TensorType type, GgufWriter& writer) {
  json settings = {{"general.type", "model"}, {"general.name", folder_name(file.path())}};
  if (const uint32_t rows = vocabulary_of(definition); rows > 0)
    settings[model.architecture + ".vocab_size"] = rows;
  if (model.metadata.is_object()) settings.update(model.metadata);
  writer.add("general.architecture", model.architecture); // first, as readers expect
  for (const auto& [key, value] : settings.items()) PUMICE_CHECK(add_setting(writer, key, value));
  writer.add("general.file_type", file_type_number(type));
  writer.add("general.quantization_version", quantization_version);
  return {};
}

bool is_head(const GgufModel& model, const GgufTensor& tensor) {
  if (tensor.name == "output.weight") return true;
  return tensor.name == "token_embd.weight" &&
         std::ranges::find(model.tensors, "output.weight", &GgufTensor::name) == model.tensors.end();
}

// The type in which a tensor is written, and whether the requested type did not fit.
struct ChosenType {
  TensorType type;
  bool fell_back = false;
};

ChosenType choose_type(const GgufModel& model, const GgufTensor& tensor, TensorType requested) {
  const auto ends_with = [&](std::string_view end) { return tensor.name.ends_with(end); };
  // llama.cpp convolves with these two types only, and uses the other matrix transposed.
  if (ends_with("patch_embd.weight") || ends_with("patch_embd.weight.1"))
    return {requested == TensorType::f16 ? TensorType::f16 : TensorType::f32};
  if (ends_with("mm.input_projection.weight"))
    return {requested == TensorType::f32 ? TensorType::f32 : TensorType::f16};
  // These are small, and small errors in them have a large effect.
  if (tensor.shape.size() < 2 || ends_with(".bias") || ends_with("ffn_gate_inp.weight") ||
      ends_with("ssm_a") || ends_with("ssm_d") || ends_with("conv1d.weight") || ends_with("conv.weight") ||
      ends_with("norm.weight") || ends_with("position_embd.weight") || ends_with("token_types.weight"))
    return {TensorType::f32};
  if (info(requested).name == "Q4_K" && is_head(model, tensor)) {
    if (const TensorTypeInfo* better = find_type_named("Q6_K"); better && can_quantize(better->type))
      requested = better->type;
  }
  const auto fits = [&](TensorType type) { return tensor.shape.back() % info(type).block_size == 0; };
  if (fits(requested)) return {requested};
  return {fits(TensorType::q8_0) ? TensorType::q8_0 : TensorType::f16, true};
}

} // namespace

std::string conversion_types() {
  std::string names;
  for (const FileType& file_type : file_types) {
    if (type_of(file_type)) names.append(names.empty() ? "" : ", ").append(file_type.name);
  }
  return names;
}

Result<TensorType> conversion_type(std::string_view name) {
  for (const FileType& file_type : file_types) {
    const TensorTypeInfo* type = type_of(file_type);
    if (type && type == find_type_named(name)) return type->type;
  }
  return Error{Code::not_found, fmt::format("expected one of {}, found '{}'", conversion_types(), name)};
}

Result<Conversion> convert_to_gguf(const ModelFile& file, const ModelDefinition& definition,
                                   const std::filesystem::path& path, const ConversionOptions& options,
                                   const Progress& progress) {
  PUMICE_TRY(const GgufModel model, definition.gguf(file));
  Conversion conversion;
  GgufWriter writer;
  PUMICE_CHECK(add_settings(model, file, definition, options.type, writer));
  if (const uint32_t rows = vocabulary_of(definition); rows > 0)
    PUMICE_CHECK(add_vocabulary(file, rows, options.vocabulary, writer, conversion.notes));
  std::vector<TensorType> types;
  size_t fallen_back = 0;
  for (const GgufTensor& tensor : model.tensors) {
    const ChosenType chosen = choose_type(model, tensor, options.type);
    types.push_back(chosen.type);
    fallen_back += chosen.fell_back;
    writer.add_tensor(tensor.name, tensor.shape, chosen.type);
  }
  if (fallen_back > 0) {
    conversion.notes.push_back(
        fmt::format("{}: {} of {} tensors have rows that are not a whole number of {}'s blocks of "
                    "{}: they are Q8_0 or F16",
                    file.path(), fallen_back, model.tensors.size(), info(options.type).name,
                    info(options.type).block_size));
  }
  PUMICE_CHECK(writer.open(path));
  uint64_t done = 0;
  for (size_t i = 0; i < model.tensors.size(); ++i) {
    PUMICE_TRY(const TensorRows rows, TensorRows::of(model.tensors[i]));
    PUMICE_CHECK(write_rows(rows, types[i], writer, progress, done, writer.tensor_bytes()));
  }
  PUMICE_CHECK(writer.finish());
  conversion.bytes = writer.file_bytes();
  conversion.tensors = model.tensors.size();
  return conversion;
}

} // namespace pumice
