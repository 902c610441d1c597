#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace pumice {

// A small file of one process. It is locked as long as the process lives, however it ends, so that others can
// tell a file that was left behind.
class LockedFile {
public:
  LockedFile() = default; // no file
  // Makes a new file. Error io if there is one already, or the folder cannot be written to or has no locks.
  static Result<LockedFile> create(const std::filesystem::path& path);
  ~LockedFile(); // closes it; it stays
  LockedFile(LockedFile&& other) noexcept;
  LockedFile& operator=(LockedFile&& other) noexcept;

  bool is_open() const { return file_ >= 0; }
  // Replaces the contents. With `durable` it returns once they are on the disk, where they outlive the
  // machine too.
  Status write(std::string_view text, bool durable);

private:
  explicit LockedFile(int file) : file_(file) {}

  int file_ = -1;
};

// The contents of a locked file whose process has ended. Nothing if the process lives, the file cannot be
// read, or it is empty: then it is removed.
std::optional<std::string> read_left_file(const std::filesystem::path& path);

} // namespace pumice
