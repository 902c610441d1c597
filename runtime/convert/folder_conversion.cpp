#include "convert/folder_conversion.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "convert/gguf_output.h"
#include "convert/tensor_use.h"
#include "io/bytes.h"
#include "io/formats/gguf_writer.h"
#include "model/vocabulary.h"

namespace pumice {

namespace {

using nlohmann::json;

constexpr uint64_t small_tensor = 4096; // elements that are not worth a smaller type

// The files that readers of a folder open, beside config.json.
constexpr const char* settings_files[] = {"generation_config.json",
                                          "preprocessor_config.json",
                                          "processor_config.json",
                                          "config_sentence_transformers.json",
                                          "sentence_bert_config.json",
                                          "modules.json",
                                          "README.md"};
constexpr const char* vocabulary_files[] = {
    "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json",
    "vocab.json",     "chat_template.json",    "chat_template.jinja"};
// Those that are read where there is no tokenizer.json.
constexpr const char* older_vocabulary_files[] = {
    "vocab.txt", "merges.txt", "spiece.model", "sentencepiece.bpe.model",
    "spm.model", "source.spm", "target.spm"};

// The modules of a model of sentence-transformers; no list if there is none.
json modules_of(const ModelFolder& folder) {
  const Result<MappedFile> file = folder.open("modules.json");
  return file.ok() ? json::parse(as_text(file->bytes()), nullptr, /*allow_exceptions=*/false) : json();
}

// A field that is a text.
std::string text_of(const json& object, const char* name) {
  const json value = object.is_object() ? object.value(name, json()) : json();
  return value.is_string() ? value.get<std::string>() : std::string();
}

// The files of the modules that follow a model of sentence-transformers.
std::vector<std::string> module_files(const ModelFolder& folder) {
  std::vector<std::string> modules = {"1_Pooling"};
  if (const json listed = modules_of(folder); listed.is_array()) {
    modules.clear();
    for (const json& each : listed) modules.push_back(text_of(each, "path"));
  }
  std::vector<std::string> names;
  for (const std::string& module : modules) {
    for (const char* name : {"config.json", "model.safetensors"}) {
      if (std::string file = fmt::format("{}/{}", module, name); is_file_of_model(file))
        names.push_back(std::move(file));
    }
  }
  return names;
}

Status add_files(const ModelFile& file, bool vocabulary, GgufWriter& writer) {
  const ModelFolder folder = folder_of(file);
  writer.add(ModelFolder::gguf_version, ModelFolder::version);
  const auto key = [](std::string_view name) { return fmt::format("{}{}", ModelFolder::gguf_prefix, name); };
  // Not the folder's own file: that of CTranslate2 says less.
  const std::string config = file.config().dump();
  writer.add_bytes(key("config.json"), std::as_bytes(std::span(config)));
  std::vector<std::string> names(std::begin(settings_files), std::end(settings_files));
  if (vocabulary) names.insert(names.end(), std::begin(vocabulary_files), std::end(vocabulary_files));
  if (vocabulary && !folder.has("tokenizer.json"))
    names.insert(names.end(), std::begin(older_vocabulary_files), std::end(older_vocabulary_files));
  for (std::string& name : module_files(folder)) names.push_back(std::move(name));
  for (const std::string& name : names) {
    if (!folder.has(name)) continue;
    PUMICE_TRY(const MappedFile small, folder.open(name));
    writer.add_bytes(key(name), small.bytes());
  }
  return {};
}

uint64_t elements_of(const TensorView& tensor) {
  return std::accumulate(tensor.shape.begin(), tensor.shape.end(), uint64_t{1}, std::multiplies<>());
}

WrittenType choose_type(const MixtureTypes& types, const TensorView& tensor, const TensorUse* use,
                        TensorType requested) {
  const uint64_t elements = elements_of(tensor);
  if (tensor.shape.size() < 2 || tensor.shape.back() == elements) return {}; // a vector
  if (use && use->matrix && !use->other && tensor.shape.size() == 2 && tensor.shape.back() > 1)
    return types.of(use->head ? "output.weight" : tensor.name, false, tensor.shape.back());
  if (requested == TensorType::f32 || (use && use->other) || elements < small_tensor) return {};
  return {TensorType::f16};
}

// The tensor as it is, which a folder's reader finds.
GgufTensor as_it_is(const TensorView& tensor) {
  GgufTensor same;
  same.name = tensor.name;
  same.shape = tensor.shape.empty() ? std::vector<uint64_t>{1} : tensor.shape;
  same.parts = {WeightView::whole(tensor)};
  return same;
}

} // namespace

bool fits_as_folder(const ModelFile& file, const ModelDefinition& definition) {
  const ModelShape shape = definition.shape();
  const bool reads_pictures_in_prompts = shape.pictures.has_value();
  return !file.ranked_tokens() && !reads_pictures_in_prompts && (shape.encoder || !has_gguf_name(file));
}

std::string needs_folder(const ModelFile& file, bool vocabulary) {
  const ModelFolder folder = folder_of(file);
  const json modules = modules_of(folder);
  const bool dense = modules.is_array() && std::ranges::any_of(modules, [](const json& each) {
                       return text_of(each, "type").ends_with(".Dense");
                     });
  if (dense)
    return fmt::format("{}: llama.cpp has no form for dense layers after a model",
                       folder.path("modules.json"));
  if (vocabulary && file.tokenizer_path().empty() && load_tokenizer(file).ok())
    return fmt::format("{}: there is no tokenizer.json, and GGUF's vocabulary is made of one", file.path());
  return "";
}

Result<Conversion> convert_folder(const ModelFile& file, const ModelDefinition& definition,
                                  const std::filesystem::path& path, const ConversionOptions& options,
                                  const Progress& progress, const std::string& why) {
  PUMICE_TRY(const auto uses, tensor_uses(file, definition));
  Conversion conversion;
  // The names are not llama.cpp's: of a mixture, all but the head have the one type.
  const MixtureTypes types(options.mixture, options.rules, {}, {}, {"output.weight"},
                           options.importance != nullptr);
  std::vector<OutputTensor> tensors;
  size_t fallen_back = 0;
  for (const TensorView& tensor : file.tensors()) {
    if (elements_of(tensor) == 0) continue;
    const auto use = uses.find(tensor.name);
    const WrittenType chosen =
        choose_type(types, tensor, use == uses.end() ? nullptr : &use->second, options.mixture.type);
    fallen_back += chosen.fell_back;
    tensors.push_back({as_it_is(tensor), tensor.type, chosen.type});
  }
  if (fallen_back > 0)
    conversion.notes.push_back(fallback_note(file.path(), fallen_back, tensors.size(), options.mixture.type));
  conversion.notes.push_back(
      fmt::format("{}, so the file holds the folder: only Pumice reads the file", why));
  const auto settings = [&](GgufWriter& writer) {
    writer.add("general.architecture", file.architecture());
    writer.add("general.type", "model");
    writer.add("general.file_type", options.mixture.file_type);
    return add_files(file, options.vocabulary, writer);
  };
  PUMICE_CHECK(write_gguf(file, path, options, true, settings, tensors, progress, conversion));
  return conversion;
}

} // namespace pumice
