#include "io/weight_files.h"

#include <algorithm>
#include <system_error>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "io/bytes.h"
#include "io/fields.h"
#include "io/json_text.h"
#include "io/mapped_file.h"
#include "io/nearest_files.h"

namespace pumice {

namespace fs = std::filesystem;

namespace {

// Whether this is the name of a file in the model's own folder. The index is untrusted and must not lead to
// files elsewhere.
bool is_plain_name(std::string_view name) {
  return !name.empty() && name != "." && name != ".." &&
         name.find_first_of(std::string_view("/\\:\0", 4)) == std::string_view::npos;
}

} // namespace

namespace weight_files {

bool file_exists(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

fs::path join(const fs::path& folder, std::string_view utf8_name) {
  return folder / fs::path(std::u8string(utf8_name.begin(), utf8_name.end()));
}

Result<std::map<std::string, std::string>> read_index(const fs::path& path) {
  PUMICE_TRY(const MappedFile file, MappedFile::open(path));
  PUMICE_TRY(const nlohmann::json index, parse_json_object(file.bytes(), file.path(), DuplicateKeys::refuse));
  const Fields fields(index, file.path());
  PUMICE_TRY(const Fields weight_map, fields.object("weight_map"));
  std::map<std::string, std::string> shards;
  for (const auto& [tensor, value] : fields.find("weight_map")->items()) {
    PUMICE_TRY(std::string shard, weight_map.string(tensor));
    if (!is_plain_name(shard))
      return weight_map.error(
          tensor, fmt::format("expected the name of a file beside this one, found {}", in_quotes(shard)));
    shards.emplace(tensor, std::move(shard));
  }
  return shards;
}

const char* name_in(const fs::path& folder) {
  for (const char* name : names)
    if (file_exists(folder / name)) return name;
  return nullptr;
}

bool is_index(std::string_view name) {
  return name.ends_with(".json");
}

std::string_view not_read(std::string_view name) {
  static constexpr struct {
    std::string_view begin, end, what;
  } kinds[] = {
      {"adapter_model", "", "is an adapter: give the model that it was trained for, and it with --lora"},
      {"consolidated.", "",
       "has weights under their maker's own names, which are not read: look for the model's files "
       "for transformers, model.safetensors"},
      {"", ".gguf", "is a model by itself: give its path"},
      {"", ".h5", "has TensorFlow's weights, which are not read"},
      {"", ".keras", "has TensorFlow's weights, which are not read"},
      {"", ".msgpack", "has Flax's weights, which are not read"},
      {"", ".onnx", "is an ONNX model, which is not read"},
      {"openvino_", ".xml", "is an OpenVINO model, which is not read"},
      {"", ".ot", "has weights of rust-bert, which are not read"},
      {"", ".npz", "has weights of MLX, which are not read"},
      {"model-00", ".safetensors", "is a part, whose model.safetensors.index.json is missing"},
      {"pytorch_model-00", ".bin", "is a part, whose pytorch_model.bin.index.json is missing"},
      {"", ".safetensors", "is read under the name model.safetensors"},
      {"model.ckpt", "", "has TensorFlow's weights, which are not read"},
      {"model", ".pth", "is read under the name model.pth"},
      {"model", ".pt", "is read under the name model.pt"},
      {"", ".incomplete", "is a download that has not ended"},
      {"", ".part", "is a download that has not ended"},
      {"", ".crdownload", "is a download that has not ended"},
      {"", ".aria2", "stands beside a download that has not ended"},
  };
  if (std::ranges::count(names, name)) return {};
  for (const auto& kind : kinds)
    if (name.starts_with(kind.begin) && name.ends_with(kind.end)) return kind.what;
  return {};
}

std::string not_read_in(const fs::path& folder) {
  if (folder.empty()) return {}; // of a model in memory
  for (const fs::path& in : {folder, folder / "onnx"}) {
    for (const fs::path& entry : entries_of(in)) {
      const std::string name = path_text(entry.filename());
      if (const std::string_view what = not_read(name); !what.empty())
        return fmt::format("{} {}", path_text(entry.lexically_relative(folder)), what);
    }
  }
  return {};
}

std::vector<fs::path> parts_of_gguf(const fs::path& path) {
  const std::u8string utf8 = path.filename().u8string();
  const std::string name(utf8.begin(), utf8.end());
  constexpr std::string_view like = "-00000-of-00000.gguf";
  std::vector<fs::path> parts;
  if (name.size() <= like.size()) return {path};
  const std::string_view stem = std::string_view(name).substr(0, name.size() - like.size());
  const std::string_view end = std::string_view(name).substr(stem.size());
  uint32_t count = 0;
  for (size_t i = 0; i < like.size(); ++i) {
    const bool digit = end[i] >= '0' && end[i] <= '9';
    if (like[i] == '0' ? !digit : end[i] != like[i]) return {path};
    if (i >= like.find("-of-") + 4 && digit) count = count * 10 + static_cast<uint32_t>(end[i] - '0');
  }
  for (uint32_t part = 1; part <= count; ++part)
    parts.push_back(join(path.parent_path(), fmt::format("{}-{:05}-of-{:05}.gguf", stem, part, count)));
  return parts.empty() ? std::vector{path} : parts;
}

} // namespace weight_files
} // namespace pumice
