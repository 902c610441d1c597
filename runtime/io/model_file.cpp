#include "io/model_file.h"

#include "io/bytes.h"
#include "io/failed_download.h"
#include "io/formats/ctranslate2.h"
#include "io/formats/ggml_whisper.h"
#include "io/formats/gguf.h"
#include "io/formats/safetensors.h"
#include "io/formats/torch_file.h"
#include "io/json_text.h"
#include "io/nearest_files.h"
#include "io/nearest_names.h"
#include "io/no_weights.h"
#include "io/quantised/folder_blocks.h"
#include "io/quantised/nvfp4_blocks.h"
#include "io/weight_files.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <iterator>
#include <mutex>
#include <new>
#include <optional>
#include <set>
#include <system_error>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>

namespace pumice {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t first_header_bytes = uint64_t{1} << 20;
constexpr uint64_t small_tensor_bytes = 4096;

// What can be opened, for messages.
constexpr const char* kinds = "a model is a .gguf file, a folder with config.json and model.safetensors or "
                              "pytorch_model.bin, a file of "
                              "whisper.cpp (ggml-*.bin), or a config.json alone";

// How a text model's names begin where it is a part of another model, and how they begin by themselves.
constexpr std::pair<std::string_view, std::string_view> text_roots[] = {
    {"language_model.model.model.", "model."}, // as transformers 5 writes Voxtral and Qwen2-Audio
    {"language_model.model.", "model."},
    {"language_model.lm_head.", "lm_head."},
    {"model.language_model.", "model."},
    {"model.text_model.", "model."}};

// The name that a tensor of a text model has by itself; empty if it is no such tensor.
std::string text_name(std::string_view name) {
  for (const auto& [inside, alone] : text_roots) {
    if (name.starts_with(inside)) return fmt::format("{}{}", alone, name.substr(inside.size()));
  }
  return {};
}

// For a folder without a config.json.
Error no_model(const fs::path& folder) {
  constexpr size_t most = 20;
  const std::vector<std::string> models = models_in(folder, most);
  if (models.empty()) {
    const char* weights = weight_files::name_in(folder);
    const std::string found = weights ? fmt::format("{} is there, and its config.json is missing", weights)
                                      : weight_files::not_read_in(folder);
    return {Code::not_found, fmt::format("{}: there is no model in this folder: {}{}{}", path_text(folder),
                                         found, found.empty() ? "" : "; ", kinds)};
  }
  return {Code::not_found,
          fmt::format("{}: this folder is not a model itself, but holds {}: give {}", path_text(folder),
                      models.size() == 1 ? "one" : "several",
                      models.size() == 1 ? "its path" : "one of their paths"),
          models};
}

// Whether a path that does not exist is a model's name elsewhere: an address, "name:8b" or "owner/name".
bool is_name_elsewhere(const fs::path& path) {
  const std::string name = path_text(path);
  if (name.find("://") != std::string::npos) return true;
  if (path.is_absolute() || name.starts_with('.')) return false;
  const bool hub = name.starts_with("hf.co/") || name.starts_with("huggingface.co/");
  const bool file = std::ranges::any_of(std::array{".gguf", ".json", ".bin"},
                                        [&](const char* end) { return name.ends_with(end); });
  return hub || (!file && std::ranges::count(name, '/') <= 1);
}

Result<MappedFile> open_file(const fs::path& path) {
  Result<MappedFile> file = MappedFile::open(path);
  if (file.ok() || file.error().code != Code::not_found || !is_name_elsewhere(path)) return file;
  Error error = std::move(file).error();
  if (error.message.find("did you mean") == std::string::npos)
    error.message += "; models are not downloaded: fetch the file or the folder first, then give its path";
  return error;
}

// For a file that is not a model.
Error not_a_model(const fs::path& path) {
  const std::string name = path_text(path.filename());
  const fs::path folder = path.has_parent_path() ? path.parent_path() : ".";
  const bool weights = std::ranges::count(ModelFile::weight_files(folder), folder / path.filename()) > 0;
  if (weights || name.ends_with(".index.json")) {
    return {Code::unsupported, fmt::format("{}: this file is of a model's weights: give their folder, {}",
                                           path_text(path), path_text(folder))};
  }
  const std::string_view what = weight_files::not_read(name);
  return {Code::unsupported, fmt::format("{}: this file {}: {}", path_text(path),
                                         what.empty() ? "is not a model" : what, kinds)};
}

bool starts_as_gguf(std::span<const std::byte> bytes) {
  return as_text(bytes).starts_with("GGUF");
}

// Calls open() and turns std::bad_alloc into an error.
template <class Open>
Result<ModelFile> with_memory(const std::string& name, const Open& open) {
  try {
    return open();
  } catch (const std::bad_alloc&) {
    return Error{Code::out_of_memory, fmt::format("{}: not enough memory for its header", name)};
  }
}

// Reads the tensors that hold settings rather than weights, such as the factors of rotary positions.
Status read_small_tensors(MappedFile& file, const ReadBytes& source, std::span<const TensorView> tensors) {
  for (const TensorView& tensor : tensors) {
    if (tensor.data.size() > small_tensor_bytes) continue;
    const auto begin = static_cast<uint64_t>(tensor.data.data() - file.bytes().data());
    PUMICE_CHECK(file.read(source, begin, tensor.data.size()));
  }
  return {};
}

// Converters write -1 for a special token that a model does not have.
void forget_missing_tokens(nlohmann::json& metadata) {
  for (auto at = metadata.begin(); at != metadata.end();) {
    const bool id = at.key().starts_with("tokenizer.ggml.") && at.key().ends_with("_token_id");
    at = id && (*at == -1 || *at == UINT32_MAX) ? metadata.erase(at) : std::next(at);
  }
}

// Python writes infinities and NaN as no JSON has them; transformers, as an object, which fields know.
Result<nlohmann::json> parse_config(const MappedFile& file) {
  const std::string_view text = as_text(file.bytes());
  std::string usual;
  bool in_string = false, changed = false;
  for (size_t at = 0; at < text.size(); ++at) {
    const char c = text[at];
    const bool begins = !in_string && (c == '-' || c == 'I' || c == 'N');
    const auto name = [&](std::string_view each) { return begins && text.substr(at).starts_with(each); };
    const std::string_view found = name("-Infinity")  ? "-Infinity"
                                   : name("Infinity") ? "Infinity"
                                   : name("NaN")      ? "NaN"
                                                      : "";
    if (!found.empty()) {
      usual += fmt::format(R"({{"__float__":"{}"}})", found);
      at += found.size() - 1;
      changed = true;
      continue;
    }
    usual += c;
    if (c == '\\' && in_string && at + 1 < text.size())
      usual += text[++at];
    else if (c == '"')
      in_string = !in_string;
  }
  return parse_json_object(changed ? std::as_bytes(std::span(usual)) : file.bytes(), file.path());
}

} // namespace

Result<ModelFile> ModelFile::open(const fs::path& path) {
  return with_memory(path_text(path), [&] { return open_path(path); });
}

Result<ModelFile> ModelFile::open(const fs::path& path, FileRange range) {
  return with_memory(path_text(path), [&]() -> Result<ModelFile> {
    PUMICE_TRY(MappedFile file, MappedFile::open(path, range));
    return from_gguf(std::move(file));
  });
}

Result<ModelFile> ModelFile::from_memory(std::span<const std::byte> bytes, std::string name) {
  return with_memory(name, [&] { return from_bytes(MappedFile::from_memory(bytes, name)); });
}

Result<ModelFile> ModelFile::read(const ReadBytes& source, uint64_t bytes, std::string name,
                                  const Progress& progress) {
  return with_memory(name, [&]() -> Result<ModelFile> {
    PUMICE_TRY(MappedFile file, MappedFile::reserve(bytes, name));
    PUMICE_CHECK(file.read(source, 0, bytes, progress));
    return from_bytes(std::move(file));
  });
}

Result<ModelFile> ModelFile::read_header(const ReadBytes& source, uint64_t bytes, std::string name) {
  return with_memory(name, [&]() -> Result<ModelFile> {
    PUMICE_TRY(MappedFile file, read_header_bytes(source, bytes, name));
    return from_bytes(std::move(file));
  });
}

// A GGUF file does not state the length of its header. So this reads the beginning of the file and parses it,
// and reads twice as much until the header is valid and ends within the bytes that were read. The bytes
// beyond are zeros, which no valid header continues with.
Result<MappedFile> ModelFile::read_header_bytes(const ReadBytes& source, uint64_t bytes,
                                                const std::string& name) {
  PUMICE_TRY(MappedFile file, MappedFile::reserve(bytes, name));
  for (uint64_t begin = 0, end = std::min(first_header_bytes, bytes);; end += std::min(end, bytes - end)) {
    PUMICE_CHECK(file.read(source, begin, end - begin));
    const Result<GgufFile> gguf = GgufFile::parse(file.bytes(), name);
    if (gguf.ok() && gguf->data_offset <= end) {
      PUMICE_CHECK(read_small_tensors(file, source, gguf->tensors));
      return file;
    }
    // The header of a ggml file's tensor follows the data of the one before.
    const bool goes_on = starts_as_gguf(file.bytes()) || is_ggml(file.bytes());
    if (end == bytes || !goes_on) return file;
    begin = end;
  }
}

Result<ModelFile> ModelFile::join(std::vector<MappedFile> files) {
  if (files.empty()) return Error{Code::not_found, "the model has no files"};
  const std::string name = files.front().path();
  return with_memory(name, [&]() -> Result<ModelFile> {
    if (files.size() == 1) return from_bytes(std::move(files.front()));
    std::map<uint32_t, MappedFile> parts;
    uint32_t count = 0;
    for (MappedFile& file : files) {
      PUMICE_TRY(const GgufFile gguf, GgufFile::parse(file.bytes(), file.path()));
      const Fields split(gguf.metadata, file.path());
      PUMICE_TRY(const uint32_t own_count, split.u32("split.count", 1));
      PUMICE_TRY(const uint32_t number, split.u32("split.no", 0, own_count - 1));
      if (count != 0 && own_count != count)
        return split.error("split.count",
                           fmt::format("expected {}, as {} has it, found {}", count, name, own_count));
      count = own_count;
      if (parts.contains(number))
        return split.error("split.no", fmt::format("part {} was given twice", number + 1));
      parts.emplace(number, std::move(file));
    }
    std::vector<uint32_t> missing;
    for (uint32_t number = 0; number < count && missing.size() < 10; ++number)
      if (!parts.contains(number)) missing.push_back(number + 1);
    if (!missing.empty()) {
      return Error{Code::not_found,
                   fmt::format("{}: the model is in {} parts, and {} were given, without part {}", name,
                               count, parts.size(), fmt::join(missing, ", "))};
    }
    files.clear();
    for (auto& [number, file] : parts) files.push_back(std::move(file));
    return from_parts(std::move(files));
  });
}

Result<ModelFile> ModelFile::from_bytes(MappedFile file) {
  if (is_ggml(file.bytes())) return from_ggml(std::move(file));
  return starts_as_gguf(file.bytes()) ? from_gguf(std::move(file)) : from_config(file);
}

std::vector<fs::path> ModelFile::weight_files(const fs::path& path) {
  std::error_code ignored;
  if (!fs::is_directory(path, ignored)) return weight_files::parts_of_gguf(path);
  if (is_ctranslate2_folder(path)) return {path / "model.bin"};
  const char* name = weight_files::name_in(path);
  if (!name) return {};
  if (!weight_files::is_index(name)) return {path / name};
  std::vector<fs::path> files;
  const auto index = weight_files::read_index(path / name);
  if (!index.ok()) return files;
  for (const auto& [tensor, shard] : *index) {
    if (fs::path file = weight_files::join(path, shard); std::ranges::count(files, file) == 0)
      files.push_back(std::move(file));
  }
  return files;
}

Result<ModelFile> ModelFile::open_path(const fs::path& path) {
  if (path.empty()) return Error{Code::not_found, "the name of the model is empty: give a file or a folder"};
  std::error_code ignored;
  if (fs::is_directory(path, ignored)) {
    if (!weight_files::file_exists(path / "config.json")) return no_model(path);
    PUMICE_TRY(const MappedFile config, MappedFile::open(path / "config.json"));
    PUMICE_TRY(ModelFile model, from_config(config));
    model.path_ = path_text(path);
    model.folder_ = ModelFolder(path);
    if (is_ctranslate2_folder(path)) {
      PUMICE_TRY(Ctranslate2Model converted, read_ctranslate2(path, *model.config_));
      model.config_ = std::make_shared<const nlohmann::json>(std::move(converted.config));
      model.tensors_ = std::move(converted.tensors);
      model.files_.push_back(std::move(converted.weights));
    } else {
      PUMICE_CHECK(model.add_shards(path));
    }
    model.add_microscaled();
    PUMICE_CHECK(model.add_quantised());
    model.index_names();
    model.find_tokenizer(path);
    return model;
  }
  PUMICE_TRY(MappedFile file, open_file(path));
  if (is_ggml(file.bytes())) return from_ggml(std::move(file));
  const bool gguf = path.extension() == ".gguf" || starts_as_gguf(file.bytes());
  const bool config = path.extension() == ".json" && path.stem().extension() != ".index";
  if (!gguf && !config) return not_a_model(path);
  PUMICE_TRY(ModelFile model,
             gguf ? from_gguf(std::move(file), weight_files::parts_of_gguf(path)) : from_config(file));
  if (!model.folder_.in_gguf()) model.find_tokenizer(path.parent_path());
  return model;
}

// The settings are in the first part, and each has some of the tensors.
Result<ModelFile> ModelFile::from_gguf(MappedFile file, const std::vector<fs::path>& parts) {
  PUMICE_TRY(GgufFile gguf, GgufFile::parse(file.bytes(), file.path()));
  const Fields split(gguf.metadata, file.path());
  PUMICE_TRY(const uint32_t count, split.u32_or("split.count", 1));
  if (count <= 1) return from_whole_gguf(std::move(gguf), std::move(file));
  PUMICE_TRY(const uint32_t number, split.u32("split.no", 0, count - 1));
  if (parts.size() != count) {
    return Error{
        Code::unsupported,
        fmt::format("{}: this is part {} of the {} that a GGUF file was split into: expected them side by "
                    "side, under names that end in -{:05}-of-{:05}.gguf, or all of them as sources",
                    file.path(), number + 1, count, number + 1, count)};
  }
  std::string missing;
  for (const fs::path& part : parts)
    if (!weight_files::file_exists(part))
      missing += (missing.empty() ? "" : ", ") + path_text(part.filename());
  if (!missing.empty()) {
    return Error{Code::not_found,
                 fmt::format("{}: the model is in {} files, and beside this one there is no {}", file.path(),
                             count, missing)};
  }
  std::vector<MappedFile> files;
  for (const fs::path& part : parts) {
    PUMICE_TRY(files.emplace_back(), MappedFile::open(part));
  }
  return from_parts(std::move(files));
}

Result<ModelFile> ModelFile::from_parts(std::vector<MappedFile> parts) {
  PUMICE_TRY(GgufFile gguf, GgufFile::parse(parts[0].bytes(), parts[0].path()));
  PUMICE_TRY(ModelFile model, from_whole_gguf(std::move(gguf), std::move(parts[0])));
  for (uint32_t part = 1; part < parts.size(); ++part)
    PUMICE_CHECK(model.add_part(std::move(parts[part]), part, static_cast<uint32_t>(parts.size())));
  model.apply_factors(); // of matrices in other parts
  return model;
}

Status ModelFile::add_part(MappedFile file, uint32_t number, uint32_t count) {
  PUMICE_TRY(GgufFile gguf, GgufFile::parse(file.bytes(), file.path()));
  const Fields split(gguf.metadata, file.path());
  for (const auto& [name, expected] : {std::pair("split.no", number), std::pair("split.count", count)}) {
    PUMICE_TRY(const uint32_t found, split.u32(name));
    if (found != expected) return split.error(name, fmt::format("expected {}, found {}", expected, found));
  }
  for (const TensorView& tensor : gguf.tensors) {
    if (find(tensor.name))
      return Error{Code::invalid_file, fmt::format("{}: tensor {} is in an earlier part, too", file.path(),
                                                   in_quotes(tensor.name))};
  }
  // The index names tensors by their own strings, which move where the list grows.
  index_.clear();
  text_names_.clear();
  std::ranges::move(gguf.tensors, std::back_inserter(tensors_));
  index_names();
  files_.push_back(std::move(file));
  return {};
}

Result<ModelFile> ModelFile::from_whole_gguf(GgufFile gguf, MappedFile file) {
  ModelFile model;
  model.format_ = Format::gguf;
  model.set_path(file.path());
  forget_missing_tokens(gguf.metadata);
  model.config_ = std::make_shared<const nlohmann::json>(std::move(gguf.metadata));
  model.tensors_ = std::move(gguf.tensors);
  model.arrays_ = std::move(gguf.arrays);
  model.files_.push_back(std::move(file));
  if (model.config_->contains(ModelFolder::gguf_version)) PUMICE_CHECK(model.become_folder());
  model.index_names();
  model.apply_factors();
  return model;
}

// A matrix of NVFP4 may have a factor beside it, NAME.scale of NAME.weight, which no product here takes.
void ModelFile::apply_factors() {
  constexpr std::string_view end = ".weight";
  std::set<std::string> applied;
  for (TensorView& tensor : tensors_) {
    if (tensor.type != TensorType::nvfp4 || tensor.shape.size() != 2 || !tensor.name.ends_with(end)) continue;
    const std::string name = tensor.name.substr(0, tensor.name.size() - end.size()) + ".scale";
    const TensorView* scale = find(name);
    float factor = 0;
    if (!scale || scale->type != TensorType::f32 || scale->data.size() != sizeof factor) continue;
    std::memcpy(&factor, scale->data.data(), sizeof factor);
    tensor.type = TensorType::f32;
    tensor.blocks = nvfp4_blocks(tensor.data, factor);
    applied.insert(name);
  }
  if (applied.empty()) return;
  index_.clear();
  text_names_.clear();
  std::erase_if(tensors_, [&](const TensorView& tensor) { return applied.contains(tensor.name); });
  index_names();
}

// A GGUF file that holds a Hugging Face folder: its tensors have the folder's names already.
Status ModelFile::become_folder() {
  PUMICE_TRY(const uint32_t found, fields().u32(ModelFolder::gguf_version));
  if (found != ModelFolder::version)
    return Error{Code::unsupported,
                 fmt::format("{}: field '{}': expected {}, found {}: a later version of "
                             "Pumice wrote the file",
                             path_, ModelFolder::gguf_version, ModelFolder::version, found)};
  PUMICE_TRY(folder_, ModelFolder::of_gguf(arrays_, path_));
  PUMICE_TRY(const MappedFile config, folder_.open("config.json"));
  PUMICE_TRY(nlohmann::json settings, parse_config(config));
  format_ = Format::hugging_face;
  config_path_ = config.path();
  config_ = std::make_shared<const nlohmann::json>(std::move(settings));
  return {};
}

void ModelFile::set_path(const std::string& path) {
  path_ = config_path_ = path;
  folder_ = ModelFolder(path_of(path));
}

Result<ModelFile> ModelFile::from_config(const MappedFile& file) {
  PUMICE_TRY(nlohmann::json config, parse_config(file));
  ModelFile model;
  model.format_ = Format::hugging_face;
  model.set_path(file.path());
  model.config_ = std::make_shared<const nlohmann::json>(std::move(config));
  return model;
}

Status ModelFile::add_shards(const fs::path& folder) {
  const char* name = weight_files::name_in(folder);
  if (!name) return {};
  if (!weight_files::is_index(name)) return add_shard(folder, name, nullptr);
  PUMICE_TRY(const auto listed, weight_files::read_index(folder / name));
  std::set<std::string> shards;
  for (const auto& [tensor, shard] : listed) shards.insert(shard);
  for (const std::string& shard : shards) {
    if (!weight_files::file_exists(weight_files::join(folder, shard)))
      return Error{Code::not_found, fmt::format("{}: shard {} is listed here but is not in the folder",
                                                path_text(folder / name), in_quotes(shard))};
    PUMICE_CHECK(add_shard(folder, shard, &listed));
  }
  return {};
}

Result<std::vector<SafetensorsFile::Entry>> ModelFile::read_entries(const MappedFile& file) {
  PUMICE_CHECK(check_download(file.bytes(), file.path()));
  const bool has_header = file.bytes().size() > 8 && file.bytes()[8] == std::byte{'{'}; // of safetensors
  const bool torch_name = std::ranges::any_of(std::array{".bin", ".pt", ".pth"},
                                              [&](const char* end) { return file.path().ends_with(end); });
  if (TorchFile::begins(file.bytes()) || (torch_name && !has_header)) {
    PUMICE_TRY(TorchFile parsed, TorchFile::parse(file.bytes(), file.path()));
    for (std::vector<std::byte>& copy : parsed.copies) copies_.push_back(std::move(copy));
    return std::move(parsed.entries);
  }
  PUMICE_TRY(SafetensorsFile parsed, SafetensorsFile::parse(file.bytes(), file.path()));
  return std::move(parsed.entries);
}

// Adds a file's tensors. If `listed` is not null, adds only the tensors that it lists for this shard, and the
// file must contain all of them.
Status ModelFile::add_shard(const fs::path& folder, const std::string& shard,
                            const std::map<std::string, std::string>* listed) {
  PUMICE_TRY(MappedFile file, MappedFile::open(weight_files::join(folder, shard)));
  PUMICE_TRY(std::vector<SafetensorsFile::Entry> entries, read_entries(file));
  std::set<std::string_view> found;
  for (SafetensorsFile::Entry& entry : entries) {
    if (listed) {
      const auto place = listed->find(entry.name);
      if (place == listed->end() || place->second != shard) continue;
      found.insert(place->first);
    }
    if (const TensorTypeInfo* type = find_safetensors_type(entry.dtype))
      tensors_.push_back({std::move(entry.name), type->type, std::move(entry.shape), entry.data});
    else
      unreadable_[entry.name] = {std::move(entry.dtype), std::move(entry.shape), entry.data};
  }
  if (listed)
    for (const auto& [tensor, place] : *listed)
      if (place == shard && !found.contains(tensor))
        return Error{Code::invalid_file,
                     fmt::format("{}: expected tensor {}, which {} lists, found none of that name",
                                 file.path(), in_quotes(tensor), weight_files::name_in(folder))};
  files_.push_back(std::move(file));
  return {};
}

// MXFP4: NAME_blocks [..., blocks, 16] with the codes and NAME_scales [..., blocks] with the exponents, both
// of bytes, are the tensor NAME [..., blocks * 32].
void ModelFile::add_microscaled() {
  constexpr std::string_view suffix = "_blocks";
  for (auto at = unreadable_.begin(); at != unreadable_.end();) {
    const auto codes = at++;
    if (!codes->first.ends_with(suffix)) continue;
    std::string name = codes->first.substr(0, codes->first.size() - suffix.size());
    const auto exponents = unreadable_.find(name + "_scales");
    if (exponents == unreadable_.end()) continue;
    std::vector<uint64_t> shape = exponents->second.shape;
    shape.push_back(16);
    const bool bytes = codes->second.dtype == "U8" && exponents->second.dtype == "U8";
    if (!bytes || shape.size() < 2 || codes->second.shape != shape) continue;
    shape.pop_back();
    shape.back() *= info(TensorType::mxfp4).block_size;
    tensors_.push_back(
        {std::move(name), TensorType::mxfp4, std::move(shape), codes->second.data, exponents->second.data});
    if (at == exponents) ++at;
    unreadable_.erase(codes);
    unreadable_.erase(exponents);
  }
}

// The weights that a quantised folder has in several arrays, in place of these.
Status ModelFile::add_quantised() {
  std::unordered_map<std::string_view, const TensorView*> readable;
  std::vector<std::string> names;
  for (const TensorView& tensor : tensors_) {
    readable.emplace(tensor.name, &tensor);
    names.push_back(tensor.name);
  }
  for (const auto& [name, array] : unreadable_) names.push_back(name);
  const auto find = [&](const std::string& name) -> std::optional<FolderArray> {
    FolderArray array;
    if (const auto at = readable.find(name); at != readable.end()) {
      array = {std::string(info(at->second->type).safetensors_name), at->second->shape, at->second->data};
    } else if (const auto other = unreadable_.find(name); other != unreadable_.end()) {
      array = {other->second.dtype, other->second.shape, other->second.data};
    } else {
      return {};
    }
    uint64_t bytes = safetensors_dtype_bytes(array.dtype);
    for (uint64_t size : array.shape)
      if (!multiply(bytes, size, bytes)) return {};
    return bytes == array.data.size() ? std::optional(array) : std::nullopt;
  };
  PUMICE_TRY(FolderWeights weights, quantised_weights(*config_, names, find, path_));
  std::erase_if(tensors_, [&](const TensorView& tensor) { return weights.taken.contains(tensor.name); });
  for (const std::string& name : weights.taken) unreadable_.erase(name);
  std::ranges::move(weights.tensors, std::back_inserter(tensors_));
  return {};
}

void ModelFile::index_names() {
  for (size_t i = 0; i < tensors_.size(); ++i) index_.emplace(tensors_[i].name, i);
  if (has_text_fields()) index_text_names();
}

void ModelFile::index_text_names() {
  for (size_t i = 0; i < tensors_.size(); ++i) {
    std::string name = text_name(tensors_[i].name);
    if (!name.empty()) index_.emplace(text_names_.emplace_back(std::move(name)), i);
  }
}

Fields ModelFile::text_fields() const {
  const Fields all = fields();
  if (!has_text_fields()) return all;
  const Result<Fields> text = all.object("text_config");
  return text.ok() ? *text : all;
}

bool ModelFile::has_text_fields() const {
  const auto text = config_->find("text_config");
  return format_ == Format::hugging_face && text != config_->end() && text->is_object();
}

std::string ModelFile::text_architecture() const {
  if (!has_text_fields()) return {};
  const nlohmann::json& text = config_->at("text_config");
  const auto type = text.find("model_type");
  return type != text.end() && type->is_string() ? type->get<std::string>() : std::string();
}

void ModelFile::find_tokenizer(const fs::path& folder) {
  if (fs::path tokenizer = folder / "tokenizer.json"; weight_files::file_exists(tokenizer))
    tokenizer_path_ = std::move(tokenizer);
}

std::string ModelFile::architecture() const {
  const char* key = format_ == Format::gguf ? "general.architecture" : "model_type";
  const auto found = config_->find(key);
  return found != config_->end() && found->is_string() ? found->get<std::string>() : std::string();
}

Status ModelFile::change_settings(const SettingChanges& changes) {
  if (changes.empty()) return {};
  nlohmann::json config = *config_;
  PUMICE_CHECK(pumice::change_settings(config, format_ == Format::gguf, changes, config_path_));
  config_ = std::make_shared<const nlohmann::json>(std::move(config));
  changes_ = changes;
  asked_ = std::make_shared<AskedFields>();
  return {};
}

std::vector<std::string> ModelFile::unread_changes() const {
  return asked_ ? pumice::unread_changes(changes_, *asked_) : std::vector<std::string>();
}

bool ModelFile::is_mmproj() const {
  return format_ == Format::gguf && architecture() == "clip";
}

Status ModelFile::attach_mmproj(ModelFile mmproj) {
  if (format_ != Format::gguf || is_mmproj()) {
    return Error{Code::unsupported,
                 fmt::format("{}: expected a GGUF file with a text model, to read the pictures of {} with it",
                             path_, mmproj.path_)};
  }
  if (mmproj.format_ != Format::gguf) {
    return Error{
        Code::unsupported,
        fmt::format("{}: expected a GGUF file of the encoder of a model's pictures (mmproj)", mmproj.path_)};
  }
  if (!mmproj.is_mmproj()) {
    Error error = mmproj.fields().error(
        "general.architecture", fmt::format("expected 'clip', the encoder of a model's pictures (mmproj); "
                                            "found '{}'",
                                            mmproj.architecture()));
    error.code = Code::unsupported;
    return error;
  }
  mmproj_ = std::make_unique<ModelFile>(std::move(mmproj));
  return {};
}

const TensorView* ModelFile::find(std::string_view name) const {
  const auto found = index_.find(name);
  return found == index_.end() ? nullptr : &tensors_[found->second];
}

std::vector<std::string> ModelFile::unreadable() const {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : unreadable_) names.push_back(name);
  return names;
}

Result<const TensorView*> ModelFile::require(std::string_view name, std::span<const uint64_t> shape) const {
  const TensorView* tensor = find(name);
  if (!tensor) return missing(name);
  if (!std::ranges::equal(tensor->shape, shape))
    return Error{Code::invalid_file,
                 fmt::format("{}: tensor {}: expected shape {}, found {}", path_, in_quotes(tensor->name),
                             shape_text(shape), shape_text(tensor->shape))};
  return tensor;
}

Error ModelFile::missing(std::string_view name) const {
  for (const auto& [other, tensor] : unreadable_) {
    if (other != name && text_name(other) != name) continue;
    return {Code::unsupported, fmt::format("{}: tensor {}: expected one of the types {}, found {} (shape {})",
                                           path_, in_quotes(other), tensor_type_names(),
                                           in_quotes(tensor.dtype), shape_text(tensor.shape))};
  }
  if (!has_weights()) return no_weights(*this);
  std::vector<std::string_view> names;
  for (const TensorView& tensor : tensors_) names.push_back(tensor.name);
  std::string hint;
  for (const std::string_view other : nearest_names(name, names))
    hint += (hint.empty() ? "; the nearest names are " : ", ") + in_quotes(other);
  return {Code::not_found,
          fmt::format("{}: expected tensor {}, found none of that name{}", path_, in_quotes(name), hint)};
}

Error no_weights(const ModelFile& file) {
  const auto error = [&](const std::string& what) {
    return Error{Code::not_found, fmt::format("{}: {}", file.path(), what)};
  };
  if (file.format() == ModelFile::Format::gguf)
    return error("this GGUF file holds settings or a vocabulary, and no weights");
  const std::string beside = weight_files::not_read_in(file.folder().on_disk());
  return error(fmt::format("there are no weights: they are read from {}, in a folder with a config.json{}{}",
                           fmt::join(weight_files::names, ", "), beside.empty() ? "" : "; ", beside));
}

struct ModelFile::Derived {
  struct Tensor {
    TensorView view;
    std::vector<float> values;
  };
  std::mutex mutex;
  std::map<std::string, Tensor> tensors; // a map: its elements keep their places
  std::optional<RankedTokens> ranked_tokens;
};

ModelFile::ModelFile() : folder_(std::filesystem::path()), derived_(std::make_shared<Derived>()) {}

Result<ModelFile> ModelFile::from_ggml(MappedFile file) {
  PUMICE_TRY(GgmlWhisper whisper, read_ggml_whisper(file.bytes(), file.path()));
  ModelFile model;
  model.format_ = Format::hugging_face;
  model.set_path(file.path());
  model.config_ = std::make_shared<const nlohmann::json>(std::move(whisper.config));
  model.tensors_ = std::move(whisper.tensors);
  model.derived_->ranked_tokens = std::move(whisper.tokens);
  model.files_.push_back(std::move(file));
  model.index_names();
  return model;
}

const RankedTokens* ModelFile::ranked_tokens() const {
  return derived_->ranked_tokens ? &*derived_->ranked_tokens : nullptr;
}

const TensorView& ModelFile::derive(const std::string& name, const std::vector<uint64_t>& shape,
                                    const std::function<void(std::span<float>)>& fill) const {
  const std::lock_guard lock(derived_->mutex);
  const auto [at, added] = derived_->tensors.try_emplace(name);
  Derived::Tensor& tensor = at->second;
  if (!added) return tensor.view;
  size_t count = 1;
  for (uint64_t size : shape) count *= size;
  tensor.values.resize(count);
  fill(tensor.values);
  tensor.view = {name, TensorType::f32, shape, std::as_bytes(std::span(tensor.values)), {}};
  return tensor.view;
}

const GgufArray* ModelFile::array(std::string_view key) const {
  const auto found = arrays_.find(key);
  return found == arrays_.end() ? nullptr : &found->second;
}

uint64_t ModelFile::file_bytes() const {
  uint64_t bytes = 0;
  for (const MappedFile& file : files_) bytes += file.bytes().size();
  return bytes;
}

void ModelFile::forget_weights(std::span<const std::string_view> kept) {
  for (MappedFile& file : files_) {
    for (const TensorView& tensor : tensors_) {
      if (std::ranges::none_of(kept, [&](std::string_view begin) { return tensor.name.starts_with(begin); }))
        file.forget(tensor.data);
    }
  }
  const std::lock_guard lock(derived_->mutex);
  for (auto& [name, tensor] : derived_->tensors) {
    tensor.view.data = {};
    tensor.values = {};
  }
}

} // namespace pumice
