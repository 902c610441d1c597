#include "io/nearest_files.h"

#include <algorithm>
#include <string_view>
#include <system_error>

#include "io/mapped_file.h"
#include "io/nearest_names.h"

namespace pumice {

namespace {

namespace fs = std::filesystem;

bool is_there(const fs::path& path) {
  std::error_code error;
  return fs::exists(path, error) && !error;
}

// The entries whose names, as `name_of` gives them, are the most similar to `name`.
template <class NameOf>
std::vector<fs::path> most_similar(const std::vector<fs::path>& entries, const std::string& name,
                                   const NameOf& name_of) {
  std::vector<std::string> names;
  for (const fs::path& entry : entries) names.push_back(path_text(name_of(entry)));
  const std::vector<std::string_view> views(names.begin(), names.end());
  std::vector<fs::path> found;
  for (const std::string_view nearest : nearest_names(name, views)) {
    for (size_t i = 0; i < names.size(); ++i) {
      if (names[i] == nearest && std::ranges::count(found, entries[i]) == 0) found.push_back(entries[i]);
    }
  }
  return found;
}

std::vector<fs::path> similar_entries(const fs::path& folder, const fs::path& name) {
  const std::vector<fs::path> entries = entries_of(folder);
  std::vector<fs::path> found =
      most_similar(entries, path_text(name), [](const fs::path& entry) { return entry.filename(); });
  if (found.empty())
    found = most_similar(entries, path_text(name.stem()), [](const fs::path& entry) { return entry.stem(); });
  return found;
}

} // namespace

std::vector<fs::path> entries_of(const fs::path& folder) {
  constexpr size_t most = 4096;
  std::vector<fs::path> entries;
  std::error_code error;
  for (fs::directory_iterator at(folder.empty() ? fs::path(".") : folder, error), end;
       !error && at != end && entries.size() < most; at.increment(error)) {
    entries.push_back(folder / at->path().filename());
  }
  std::ranges::sort(entries);
  return entries;
}

std::vector<std::string> nearest_files(const fs::path& path) {
  const fs::path below = path.relative_path();
  fs::path known = path.root_path(); // on Windows a drive alone, without its root, is another folder
  auto part = below.begin();
  while (part != below.end() && is_there(known / *part)) known /= *part++;
  if (part == below.end()) return {};
  fs::path rest;
  for (auto next = std::next(part); next != below.end(); ++next) rest /= *next;
  std::vector<std::string> found;
  for (const fs::path& entry : similar_entries(known, *part)) {
    const fs::path whole = rest.empty() ? entry : entry / rest;
    if (is_there(whole)) found.push_back(path_text(whole));
    if (found.size() == 3) break;
  }
  return found;
}

std::vector<std::string> models_in(const fs::path& folder, size_t most) {
  std::vector<std::string> models;
  for (const fs::path& entry : entries_of(folder)) {
    if (models.size() == most) break;
    if (entry.extension() == ".gguf" || is_there(entry / "config.json")) models.push_back(path_text(entry));
  }
  return models;
}

} // namespace pumice
