#include <fmt/format.h>

#include "api/call.h"
#include "api/handles.h"
#include "io/quantize.h"
#include "io/tensor_type.h"

namespace pumice::api {

namespace {

ReadBytes reader_of(const pumice_source& source) {
  return [read = source.read, user = source.user](uint64_t at, std::span<std::byte> to) {
    return read(user, at, to.data(), to.size());
  };
}

constexpr size_t most_parts = 65535; // a GGUF file counts them in 16 bits

Status check_kind(const pumice_source& source, const std::string& argument) {
  const int kinds = (source.path != nullptr) + (source.memory != nullptr) + (source.read != nullptr) +
                    (source.parts != nullptr);
  if (kinds != 1) {
    return Error{Code::invalid_argument,
                 fmt::format("{} has {} of path, memory, read and parts: set one of them", argument,
                             kinds == 0 ? "none" : "several")};
  }
  if (!source.path && !source.parts && source.bytes == 0) {
    return Error{Code::invalid_argument,
                 fmt::format("{}.bytes is 0: set it to the size of the model", argument)};
  }
  if (source.memory) return check_array(source.memory, source.bytes, 1, argument + ".memory");
  return {};
}

std::string name_of(const pumice_source& source) {
  return source.name ? source.name : "model";
}

Result<MappedFile> open_part(const pumice_source& part, const Progress& progress, bool header_only) {
  if (part.path) return MappedFile::open(path_of(part.path), FileRange{part.offset, part.bytes});
  if (part.memory)
    return MappedFile::from_memory({static_cast<const std::byte*>(part.memory), part.bytes}, name_of(part));
  if (header_only) return ModelFile::read_header_bytes(reader_of(part), part.bytes, name_of(part));
  PUMICE_TRY(MappedFile file, MappedFile::reserve(part.bytes, name_of(part)));
  PUMICE_CHECK(file.read(reader_of(part), 0, part.bytes, progress));
  return file;
}

Result<ModelFile> open_parts(const pumice_source& source, const std::string& argument,
                             const Progress& progress, bool header_only) {
  PUMICE_CHECK(check_array(source.parts, source.part_count, sizeof(size_t), argument + ".parts"));
  if (source.part_count == 0 || source.part_count > most_parts) {
    return Error{Code::invalid_argument, fmt::format("{}.part_count is {}: expected 1 to {}", argument,
                                                     source.part_count, most_parts)};
  }
  std::vector<pumice_source> parts;
  uint64_t read_bytes = 0; // of all callbacks
  for (size_t i = 0; i < source.part_count; ++i) {
    const std::string name = fmt::format("{}.parts[{}]", argument, i);
    PUMICE_TRY(parts.emplace_back(), read_element(source.parts, i, name.c_str()));
    if (parts.back().parts) {
      return Error{Code::invalid_argument, fmt::format("{} has parts: a part is not split itself", name)};
    }
    PUMICE_CHECK(check_kind(parts.back(), name));
    if (parts.back().read) read_bytes += parts.back().bytes;
  }
  std::vector<MappedFile> files;
  uint64_t before = 0;
  const Progress counted = [&](uint64_t done, uint64_t) {
    return !progress || progress(before + done, read_bytes);
  };
  for (const pumice_source& part : parts) {
    PUMICE_TRY(files.emplace_back(), open_part(part, counted, header_only));
    if (part.read) before += part.bytes;
  }
  return ModelFile::join(std::move(files));
}

} // namespace

Result<ModelFile> open_source(const pumice_source* caller_source, const Progress& progress, bool header_only,
                              const char* argument) {
  if (!caller_source) return null_argument(argument);
  PUMICE_TRY(const pumice_source source, read(caller_source, argument));
  PUMICE_CHECK(check_kind(source, argument));
  if (source.path) {
    if (source.offset == 0 && source.bytes == 0) return ModelFile::open(path_of(source.path));
    return ModelFile::open(path_of(source.path), FileRange{source.offset, source.bytes});
  }
  if (source.parts) return open_parts(source, argument, progress, header_only);
  const std::string name = name_of(source);
  if (source.memory)
    return ModelFile::from_memory({static_cast<const std::byte*>(source.memory), source.bytes}, name);
  if (header_only) return ModelFile::read_header(reader_of(source), source.bytes, name);
  return ModelFile::read(reader_of(source), source.bytes, name, progress);
}

Result<ModelFile> ModelSource::open(Tower tower, const Progress& progress, bool header_only) const {
  constexpr const char* beside = "options.mmproj";
  if (mmproj && tower == Tower::pictures) return open_source(mmproj, progress, header_only, beside);
  PUMICE_TRY(ModelFile file, open_source(source, progress, header_only));
  if (!mmproj) return file;
  PUMICE_TRY(ModelFile pictures, open_source(mmproj, {}, true, beside));
  PUMICE_CHECK(file.attach_mmproj(std::move(pictures)));
  return file;
}

Result<LoadOptions> read_load_options(const pumice_load_options& options) {
  LoadOptions result;
  result.threads = std::max(options.threads, 1u);
  if (options.pictures) result.tower = Tower::pictures;
  if (options.vision > 1) {
    return Error{Code::invalid_argument,
                 fmt::format("options.vision is {}: expected 0 or 1", options.vision)};
  }
  if (options.vision && options.pictures) {
    return Error{
        Code::invalid_argument,
        "options has pictures and vision: set pictures to load the encoder of pictures alone, or vision "
        "to load it beside what reads texts"};
  }
  switch (number_in(options.purpose)) {
  case PUMICE_FOR_TEXT:
    break;
  case PUMICE_FOR_SCORES:
    result.readable = {"logits"};
    [[fallthrough]];
  case PUMICE_FOR_VECTORS:
    result.text_reader = true;
    break;
  case PUMICE_FOR_DRAFTS:
    if (options.pictures || options.vision) {
      return Error{Code::invalid_argument,
                   "options.purpose is PUMICE_FOR_DRAFTS, and options has pictures or vision: they are "
                   "loaded with the model itself"};
    }
    result.tower = Tower::prediction;
    break;
  default:
    return Error{Code::invalid_argument, fmt::format("options.purpose is {}: expected one of pumice_purpose",
                                                     number_in(options.purpose))};
  }
  switch (number_in(options.experts)) {
  case PUMICE_EXPERTS_AUTOMATIC:
    break;
  case PUMICE_EXPERTS_DEVICE:
    result.experts = ExpertPlacement::device;
    break;
  case PUMICE_EXPERTS_HOST:
    result.experts = ExpertPlacement::host;
    break;
  default:
    return Error{Code::invalid_argument, fmt::format("options.experts is {}: expected one of pumice_experts",
                                                     number_in(options.experts))};
  }
  if (options.device_layers < -1) {
    return Error{Code::invalid_argument,
                 fmt::format("options.device_layers is {}: expected -1, 0 or a number of layers",
                             options.device_layers)};
  }
  if (options.device_layers != 0)
    result.device_layers = static_cast<uint32_t>(std::max(options.device_layers, 0));
  if (!(options.budget_us >= 0)) { // also for a NaN
    return Error{Code::invalid_argument,
                 fmt::format("options.budget_us is {}: expected 0 or more", options.budget_us)};
  }
  result.budget = {double{options.budget_us} * 1e-6, options.budget_bytes};
  PUMICE_CHECK(check_array(options.settings, options.setting_count, sizeof(char*), "options.settings"));
  for (size_t i = 0; i < options.setting_count; ++i) {
    const std::string name = fmt::format("options.settings[{}]", i);
    if (!options.settings[i]) return null_argument(name.c_str());
    if (const Result<ChangedSetting> change = parse_change(options.settings[i]); !change.ok())
      return Error{change.error().code, fmt::format("{}: {}", name, change.error().message)};
    result.settings.values.emplace_back(options.settings[i]);
  }
  if (!options.quantize) return result;
  const TensorTypeInfo* type = find_type_named(options.quantize);
  if (!type) {
    return Error{Code::invalid_argument, fmt::format("options.quantize is '{}': expected one of {}",
                                                     options.quantize, quantizable_type_names())};
  }
  result.weights = type->type;
  return result;
}

Status require_tokenizer(const Tokenizer* tokenizer, const Model& model) {
  if (tokenizer) return {};
  return Error{Code::not_found,
               fmt::format("{}: the model brings no vocabulary: hand in tokens", model.file().path())};
}

} // namespace pumice::api
