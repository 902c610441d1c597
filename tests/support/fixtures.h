#pragma once

#include <cstdlib>
#include <filesystem>
#include <optional>
#include <system_error>

#include "support/paths.h"

// The folder of small models and their expected answers: PUMICE_FIXTURES, or shared/fixtures beside the
// checkout. Nothing where there is none; a test then says that it skipped.
inline std::optional<std::filesystem::path> fixtures() {
  const char* chosen = std::getenv("PUMICE_FIXTURES");
  const std::filesystem::path folder =
      chosen ? std::filesystem::path(chosen) : source_folder() / ".." / "shared" / "fixtures";
  std::error_code ignored;
  if (!std::filesystem::is_directory(folder, ignored)) return std::nullopt;
  return folder;
}
