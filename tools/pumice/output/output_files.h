#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "options/subcommand.h"

namespace pumice::command {

// Checks, before any work, that each file that a subcommand will write can be written, and that none of them
// is a file that it reads (a model's folder: one of the model's files) or writes twice. Files are compared by
// what they are on the disk, not by their names.
Status check_files(const CLI::App& app, const FileOptions& options);

// The same for files whose names come from elsewhere.
struct NamedFile {
  std::string option; // that it comes from
  std::filesystem::path path;
};
Status check_files(const std::vector<NamedFile>& inputs, const std::vector<NamedFile>& outputs);

// Where what there is of a file is written if the work ends before all of it is there: "out.partial.npy".
std::filesystem::path partial_path(const std::filesystem::path& path);

} // namespace pumice::command
