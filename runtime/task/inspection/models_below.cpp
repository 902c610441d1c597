#include "task/inspection/models_below.h"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <map>
#include <system_error>

#include <fmt/format.h>

#include "base/path.h"
#include "io/model_file.h"
#include "io/weight_files.h"
#include "model/mmproj.h"

namespace pumice {

namespace {

namespace fs = std::filesystem;

bool is_gguf(const fs::path& path) {
  return path.extension() == ".gguf";
}

// Adds the names below a folder, sizes and times of these files to a model's stamp.
void add_files(ModelBelow& model, const fs::path& folder, std::vector<fs::path> files) {
  std::ranges::sort(files);
  for (const fs::path& file : files) {
    std::error_code failed;
    const fs::file_time_type time = fs::last_write_time(file, failed);
    const uintmax_t bytes = fs::file_size(file, failed);
    if (failed) continue;
    const auto age = fs::file_time_type::clock::now() - time;
    const auto written = std::chrono::system_clock::now() -
                         std::chrono::duration_cast<std::chrono::system_clock::duration>(age);
    model.modified = std::max<int64_t>(model.modified, std::chrono::system_clock::to_time_t(written));
    model.stamp += fmt::format("{} {} {}\n", path_text(file.lexically_relative(folder)), bytes,
                               time.time_since_epoch().count());
  }
}

bool is_hidden(const fs::path& path) {
  return path_text(path.filename()).starts_with('.');
}

// Also in folders below it, as the modules of sentence-transformers are; not hidden ones.
std::vector<fs::path> files_in(const fs::path& folder) {
  std::vector<fs::path> files;
  std::error_code failed, ignored;
  fs::recursive_directory_iterator entry(folder, fs::directory_options::skip_permission_denied, failed);
  for (; !failed && entry != fs::recursive_directory_iterator(); entry.increment(failed)) {
    if (is_hidden(entry->path()))
      entry.disable_recursion_pending();
    else if (entry->is_regular_file(ignored))
      files.push_back(entry->path());
  }
  return files;
}

// Files whose names would be another model's, too, keep their .gguf.
void make_names_different(std::vector<ModelBelow>& models, const fs::path& folder) {
  std::map<std::string, size_t> counts;
  for (const ModelBelow& each : models) ++counts[each.name];
  for (ModelBelow& each : models) {
    if (counts[each.name] > 1) each.name = path_text(each.path.lexically_relative(folder));
  }
}

} // namespace

uint64_t weight_bytes(const fs::path& model) {
  uint64_t all = 0;
  for (const fs::path& each : ModelFile::weight_files(model)) {
    std::error_code failed;
    const uintmax_t bytes = fs::file_size(each, failed);
    if (!failed) all += bytes;
  }
  return all;
}

Result<std::vector<ModelBelow>> models_below(const fs::path& folder) {
  std::vector<ModelBelow> models;
  std::error_code failed, ignored;
  const auto add = [&](const fs::path& path, std::string name, std::vector<fs::path> files) {
    ModelBelow& model = models.emplace_back();
    model.name = std::move(name);
    model.path = path;
    model.bytes = weight_bytes(path);
    add_files(model, path.parent_path(), std::move(files));
  };
  const auto name_of = [&](const fs::path& path) { return path_text(path.lexically_relative(folder)); };
  fs::recursive_directory_iterator entry(folder, fs::directory_options::skip_permission_denied, failed);
  for (; !failed && entry != fs::recursive_directory_iterator(); entry.increment(failed)) {
    const fs::path& path = entry->path();
    if (is_hidden(path)) {
      entry.disable_recursion_pending();
    } else if (entry->is_directory(ignored)) {
      const bool model =
          weight_files::file_exists(path / "config.json") && !ModelFile::weight_files(path).empty();
      if (!model) continue;
      entry.disable_recursion_pending();
      add(path, name_of(path), files_in(path));
    } else if (is_gguf(path) && !is_mmproj_name(path) && entry->is_regular_file(ignored)) {
      std::vector<fs::path> parts = weight_files::parts_of_gguf(path);
      if (parts.front().filename() != path.filename()) continue;
      std::string name = name_of(path.parent_path() / path.stem());
      if (parts.size() > 1) name.resize(name.size() - std::string_view("-00001-of-00003").size());
      std::ranges::move(mmproj_files_in(path.parent_path()), std::back_inserter(parts));
      add(path, std::move(name), std::move(parts));
    }
  }
  if (failed) return Error{Code::io, fmt::format("{}: {}", path_text(folder), failed.message())};
  make_names_different(models, folder);
  std::ranges::sort(models, {}, &ModelBelow::name);
  return models;
}

} // namespace pumice
