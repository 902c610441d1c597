#include <fmt/format.h>

#include "api/call.h"
#include "api/handles.h"
#include "io/quantize.h"
#include "io/tensor_type.h"

namespace pumice::api {

namespace {

Result<ModelFile> read_through(const pumice_source& source, const std::string& name, const Progress& progress,
                               bool header_only) {
  const ReadBytes bytes = [&source](uint64_t at, std::span<std::byte> to) {
    return source.read(source.user, at, to.data(), to.size());
  };
  if (header_only) return ModelFile::read_header(bytes, source.bytes, name);
  return ModelFile::read(bytes, source.bytes, name, progress);
}

} // namespace

Result<ModelFile> open_source(const pumice_source* caller_source, const Progress& progress, bool header_only,
                              const char* argument) {
  if (!caller_source) return null_argument(argument);
  PUMICE_TRY(const pumice_source source, read(caller_source, argument));
  const int kinds = (source.path != nullptr) + (source.memory != nullptr) + (source.read != nullptr);
  if (kinds != 1) {
    return Error{Code::invalid_argument, fmt::format("{} has {} of path, memory and read: set one of them",
                                                     argument, kinds == 0 ? "none" : "several")};
  }
  if (source.path) {
    if (source.offset == 0 && source.bytes == 0) return ModelFile::open(path_of(source.path));
    return ModelFile::open(path_of(source.path), FileRange{source.offset, source.bytes});
  }
  if (source.bytes == 0) {
    return Error{Code::invalid_argument,
                 fmt::format("{}.bytes is 0: set it to the size of the model", argument)};
  }
  const std::string name = source.name ? source.name : "model";
  if (source.read) return read_through(source, name, progress, header_only);
  PUMICE_CHECK(check_array(source.memory, source.bytes, 1, std::string(argument) + ".memory"));
  return ModelFile::from_memory({static_cast<const std::byte*>(source.memory), source.bytes}, name);
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
