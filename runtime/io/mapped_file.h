#pragma once

#include "base/progress.h"
#include "base/result.h"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>

namespace pumice {

// A path as UTF-8, for messages, on every system.
std::string path_text(const std::filesystem::path& path);

// A part of a file.
struct FileRange {
  uint64_t offset = 0;
  uint64_t bytes = 0; // 0: to the file's end
};

// Reads the bytes of a file from `at` on that fill `to`, from wherever an application keeps them. False where
// it cannot.
using ReadBytes = std::function<bool(uint64_t at, std::span<std::byte> to)>;

// The bytes of a file, mapped read-only into memory: pages come from disk when they are touched, and nothing
// is copied. The address stays the same when the object is moved. If another process cuts the file short
// while it is mapped, touching the lost pages is fatal on POSIX; Windows refuses the cut.
class MappedFile {
public:
  // Errors: not_found, or io for what is no regular file (a folder, a pipe) or may not be read; invalid_file
  // for one that is too short for the range. The range may begin anywhere.
  static Result<MappedFile> open(const std::filesystem::path& path, FileRange range = {});

  // A file of `bytes` that an application reads: all zeros until read() fills it.
  static Result<MappedFile> reserve(uint64_t bytes, std::string name);
  // Reads `count` bytes from `begin` on, in pieces between which `progress` is asked.
  Status read(const ReadBytes& source, uint64_t begin, uint64_t count, const Progress& progress = {});
  // Of a file that was reserved: gives the memory of whole pages among these bytes back to the system; they
  // are zeros from then on. Nothing happens to other files' bytes.
  void forget(std::span<const std::byte> bytes);

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
  std::span<const std::byte> pages_; // that the system has given for them; empty where they are another's
  bool reserved_ = false;            // these are memory and not a file's
  std::string path_;
};

// Says that bytes of a mapped file will be touched soon, so that the system can begin to read them. Changes
// nothing but time.
void will_be_read(std::span<const std::byte> bytes);

} // namespace pumice
