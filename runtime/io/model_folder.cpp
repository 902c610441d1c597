#include "io/model_folder.h"

#include "io/bytes.h"
#include "io/json_text.h"

#include <algorithm>
#include <system_error>
#include <utility>

#include <fmt/format.h>

namespace pumice {

namespace {

constexpr uint64_t largest_file = uint64_t{1} << 30;

bool is_plain(std::string_view name) {
  return !name.empty() && name != "." && name != ".." &&
         std::ranges::all_of(name, [](char c) { return c > 0x20 && c < 0x7f && c != '\\' && c != ':'; });
}

} // namespace

bool is_file_of_model(std::string_view name) {
  for (size_t slash = name.find('/'); slash != std::string_view::npos; slash = name.find('/')) {
    if (!is_plain(name.substr(0, slash))) return false;
    name.remove_prefix(slash + 1);
  }
  return is_plain(name);
}

ModelFolder::ModelFolder(std::filesystem::path folder)
    : folder_(std::move(folder)), path_(path_text(folder_)) {}

Result<ModelFolder> ModelFolder::of_gguf(const Arrays& arrays, const std::string& file) {
  ModelFolder folder;
  folder.path_ = file;
  folder.in_gguf_ = true;
  const auto bad = [&](const std::string& key, const std::string& what) {
    return Error{Code::invalid_file, fmt::format("{}: field {}: {}", file, in_quotes(key), what)};
  };
  for (auto at = arrays.lower_bound(gguf_prefix); at != arrays.end() && at->first.starts_with(gguf_prefix);
       ++at) {
    const auto& [key, array] = *at;
    const std::string name = key.substr(gguf_prefix.size());
    if (!is_file_of_model(name))
      return bad(key, "expected the name of a file in the model's folder, found one that leads elsewhere");
    if (array.type != GgufType::u8) return bad(key, "expected an array of bytes, found one of another type");
    if (array.count > largest_file)
      return bad(key, fmt::format("expected at most {} bytes, found {}", largest_file, array.count));
    folder.files_.emplace(name, array.bytes);
  }
  return folder;
}

std::string ModelFolder::path(std::string_view name) const {
  return in_gguf_ ? fmt::format("{}: {}", path_, name) : path_text(folder_ / path_of(name));
}

bool ModelFolder::has(std::string_view name) const {
  if (in_gguf_) return files_.find(name) != files_.end();
  std::error_code ignored;
  return std::filesystem::is_regular_file(folder_ / path_of(name), ignored);
}

Result<MappedFile> ModelFolder::open(std::string_view name) const {
  if (!in_gguf_) return MappedFile::open(folder_ / path_of(name));
  const auto found = files_.find(name);
  if (found != files_.end()) return MappedFile::from_memory(found->second, path(name));
  return Error{Code::not_found,
               fmt::format("{}: expected a field '{}{}', found none", path_, gguf_prefix, printable(name))};
}

Result<std::optional<nlohmann::json>> ModelFolder::object(std::string_view name) const {
  if (!has(name)) return std::optional<nlohmann::json>();
  PUMICE_TRY(const MappedFile file, open(name));
  PUMICE_TRY(nlohmann::json object, parse_json_object(file.bytes(), file.path()));
  return std::optional(std::move(object));
}

} // namespace pumice
