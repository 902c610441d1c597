#pragma once

#include <cstdlib>
#include <filesystem>
#include <random>
#include <string>
#include <system_error>

#include <fmt/format.h>

#include "base/result.h"

namespace pumice::command {

// A folder that goes away with the object.
class TemporaryFolder {
public:
  static Result<TemporaryFolder> create() {
    std::error_code error;
    const std::filesystem::path parent = std::filesystem::temp_directory_path(error);
    TemporaryFolder result;
    if (!error) result.path_ = make_in(parent);
    if (result.path_.empty())
      return Error{Code::io, fmt::format("{}: a folder could not be made there", path_text(parent))};
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
  // Empty if that fails.
  static std::filesystem::path make_in(const std::filesystem::path& parent) {
#ifdef _WIN32 // where each user has a folder of their own for these
    std::random_device random;
    std::error_code error;
    const std::filesystem::path path = parent / fmt::format("pumice-{:08x}{:08x}", random(), random());
    return std::filesystem::create_directory(path, error) ? path : std::filesystem::path();
#else
    std::string path = (parent / "pumice-XXXXXX").string();
    if (!mkdtemp(path.data())) path.clear();
    return path;
#endif
  }

  std::filesystem::path path_; // empty: none
};

} // namespace pumice::command
