#pragma once

#include <span>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "base/result.h"

namespace pumice {

// The error for what is there in place of a model's weights after a download or a clone that went wrong.
inline Status check_download(std::span<const std::byte> bytes, const std::string& file) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  const char* found =
      text.empty() ? "it is empty: download it again"
      : text.starts_with("version https://git-lfs.github.com")
          ? "it only stands for a file that Git LFS has not fetched: run 'git lfs pull' in its folder"
      : text.starts_with("<!") || text.starts_with("<html")
          ? "it is a web page, not a model: download the file itself"
          : nullptr;
  return found ? Status(Error{Code::invalid_file, fmt::format("{}: {}", file, found)}) : Status();
}

} // namespace pumice
