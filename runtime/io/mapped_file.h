#pragma once

#include "base/result.h"

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>

namespace pumice {

// A path as UTF-8, for messages, on every system.
std::string path_text(const std::filesystem::path& path);

// The bytes of a file, mapped read-only into memory: pages come from disk when they are touched, and nothing
// is copied. The address stays the same when the object is moved. If another process cuts the file short
// while it is mapped, touching the lost pages is fatal on POSIX; Windows refuses the cut.
class MappedFile {
public:
  // Errors: not_found, or io for what is no regular file (a folder, a pipe) or may not be read.
  static Result<MappedFile> open(const std::filesystem::path& path);

  // Bytes that belong to the caller and outlive this object (fuzzers, data embedded in a program).
  static MappedFile from_memory(std::span<const std::byte> bytes, std::string name);

  MappedFile() = default; // no bytes, no name
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::span<const std::byte> bytes() const { return bytes_; } // empty for an empty file
  const std::string& path() const { return path_; }           // UTF-8; the name given to from_memory

private:
  void unmap();

  std::span<const std::byte> bytes_;
  std::string path_;
  bool owned_ = false;
};

// Says that bytes of a mapped file will be touched soon, so that the system can begin to read them. Changes
// nothing but time.
void will_be_read(std::span<const std::byte> bytes);

} // namespace pumice
