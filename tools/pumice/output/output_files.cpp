#include "output/output_files.h"

#include <algorithm>
#include <array>
#include <filesystem>

#include <fmt/format.h>

#include "io/model_file.h"
#include "io/output_file.h"

namespace pumice::command {

namespace {

namespace fs = std::filesystem;

std::vector<NamedFile> files_of(const CLI::App& app, const std::vector<std::string>& options) {
  std::vector<NamedFile> files;
  for (const std::string& option : options) {
    for (const std::string& value : app.get_option(option)->results())
      files.push_back({option, path_of(value)});
  }
  return files;
}

// The files of a folder that hold a model's settings and vocabulary all have one of these endings.
bool is_settings_file(const fs::path& path) {
  constexpr std::array endings = {".json", ".txt", ".model", ".spm", ".jinja"};
  return std::ranges::count(endings, path.extension()) != 0;
}

// What is read where this is given: a file, or the files of a model in a folder.
std::vector<fs::path> files_read(const fs::path& input) {
  std::vector<fs::path> files = ModelFile::weight_files(input);
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(input, ignored)) {
    if (is_settings_file(entry.path())) files.push_back(entry.path());
  }
  return files;
}

// Whether these are one regular file. Devices and pipes can be read and written at the same time.
bool same_file(const fs::path& a, const fs::path& b) {
  std::error_code ignored;
  return fs::equivalent(a, b, ignored) && fs::is_regular_file(a, ignored);
}

// The same of files that need not be there yet.
bool will_be_same_file(const fs::path& a, const fs::path& b) {
  std::error_code ignored;
  return same_file(a, b) || (!fs::exists(a, ignored) && a.lexically_normal() == b.lexically_normal());
}

Error conflict(const NamedFile& output, const std::string& what) {
  return {Code::invalid_argument,
          fmt::format("{}: {}: {}: choose another name", output.option, path_text(output.path), what)};
}

Status check_not_read(const NamedFile& output, const std::vector<NamedFile>& inputs) {
  for (const NamedFile& input : inputs) {
    for (const fs::path& file : files_read(input.path)) {
      if (!same_file(output.path, file)) continue;
      const bool of_folder = file != input.path;
      return conflict(output,
                      of_folder ? fmt::format("it is one of the files of the model {}", path_text(input.path))
                                : fmt::format("{} is read from this file", input.option));
    }
  }
  return {};
}

} // namespace

std::filesystem::path partial_path(const std::filesystem::path& path) {
  std::filesystem::path partial = path;
  partial.replace_filename(path.stem()) += ".partial";
  partial += path.extension();
  return partial;
}

Status check_files(const CLI::App& app, const FileOptions& options) {
  return check_files(files_of(app, options.reads), files_of(app, options.writes));
}

Status check_files(const std::vector<NamedFile>& inputs, const std::vector<NamedFile>& outputs) {
  for (size_t i = 0; i < outputs.size(); ++i) {
    PUMICE_CHECK(check_not_read(outputs[i], inputs));
    for (size_t other = 0; other < i; ++other) {
      if (will_be_same_file(outputs[i].path, outputs[other].path)) {
        return conflict(outputs[i], fmt::format("{} is written to this file", outputs[other].option));
      }
    }
    if (Status status = OutputFile::check(outputs[i].path); !status.ok()) {
      return Error{status.error().code, fmt::format("{}: {}", outputs[i].option, status.error().message)};
    }
  }
  return {};
}

} // namespace pumice::command
