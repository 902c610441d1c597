#pragma once

#include "base/path.h"
#include "base/progress.h"
#include "base/result.h"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>

namespace pumice {

// A range of bytes of a file.
struct FileRange {
  uint64_t offset = 0;
  uint64_t bytes = 0; // 0: up to the end of the file
};

// Reads a file for the library: copies the bytes that begin at `at` into `to` until it is full. An
// application provides it, for files that do not lie on disk. Returns false if the bytes cannot be read.
using ReadBytes = std::function<bool(uint64_t at, std::span<std::byte> to)>;

// The bytes of a file, mapped read-only into memory: the system reads a page when it is first accessed, and
// nothing is copied. The address stays the same when the object is moved. If another process truncates the
// file while it is mapped, access to the lost pages ends the process on POSIX; Windows refuses the
// truncation.
class MappedFile {
public:
  // Maps a file or a range of it; the range need not be aligned. Errors: not_found; io if it is not a regular
  // file (a folder, a pipe) or cannot be read; invalid_file if it is too short for the range.
  static Result<MappedFile> open(const std::filesystem::path& path, FileRange range = {});

  // Allocates memory for a file of `bytes` that an application reads. It is all zeros until read() fills it.
  static Result<MappedFile> reserve(uint64_t bytes, std::string name);
  // Only after reserve(): reads `count` bytes from `begin` on, in several pieces, and calls `progress` before
  // each.
  Status read(const ReadBytes& source, uint64_t begin, uint64_t count, const Progress& progress = {});
  // Only after reserve(): returns the memory of the whole pages among these bytes to the system; they become
  // zeros. Does nothing for a mapped file.
  void forget(std::span<const std::byte> bytes);

  // A view of bytes that the caller owns and that outlive this object (fuzzers, data embedded in a program).
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
  std::span<const std::byte> pages_; // the pages to unmap or free; empty if the caller owns the bytes
  bool reserved_ = false;            // the pages are allocated memory, not a mapping
  std::string path_;
};

// Tells the system that these bytes of a mapped file will be accessed soon, so that it can begin to read
// them. Affects only speed.
void will_be_read(std::span<const std::byte> bytes);
// Tells it that these bytes of a mapped file are not needed again soon, so that they need not stay in memory.
// Not for bytes that are not a file's: they would be lost.
void was_read(std::span<const std::byte> bytes);

} // namespace pumice
