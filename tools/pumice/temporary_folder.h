#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>

#include <fmt/format.h>

#include "base/result.h"

namespace pumice::command {

// A folder that goes away with the object.
class TemporaryFolder {
public:
  static Result<TemporaryFolder> create() {
    std::error_code error;
    std::string folder = (std::filesystem::temp_directory_path(error) / "pumice-XXXXXX").string();
    if (error || !mkdtemp(folder.data()))
      return Error{Code::io, fmt::format("{}: the folder could not be made", folder)};
    TemporaryFolder result;
    result.path_ = folder;
    return result;
  }
  TemporaryFolder() = default;
  TemporaryFolder(TemporaryFolder&& other) noexcept { path_.swap(other.path_); }
  TemporaryFolder& operator=(TemporaryFolder&& other) noexcept {
    path_.swap(other.path_);
    return *this;
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
  }

  const std::filesystem::path& path() const { return path_; }

private:
  std::filesystem::path path_; // empty: none
};

} // namespace pumice::command
