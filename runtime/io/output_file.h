#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <span>
#include <string>

#include "base/result.h"

namespace pumice {

// Writes a file without harm to what is there. The bytes go to a new file beside it, NAME.partial-NUMBER,
// which finish() renames to the name that was asked for. So a reader finds the old file or the whole new one,
// and an error leaves the old one as it was. Without finish(), the destructor removes the new file.
//
// A symbolic link stays, and the file that it leads to is replaced. The new file has the permissions of the
// old one. A device or a pipe is written as it is. A folder, a disk and a write-protected file are refused.
//
// Errors name the path. Their code is io; not_found if there is no such folder; invalid_argument if the path
// names something that no file can replace.
class OutputFile {
public:
  OutputFile() = default;
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  // The error that open() would return now, if any. It leaves everything as it is.
  static Status check(const std::filesystem::path& path);

  Status open(const std::filesystem::path& path);
  Status write(std::span<const std::byte> bytes);
  // Whether write_first() can be used: not on a device or a pipe.
  bool seekable() const { return !partial_.empty(); }
  // Moves bytes that were written to an earlier place, `to`, and ends the file behind them: takes what is
  // before them and behind them out. Only write_first() and finish() may follow.
  Status move_back(uint64_t from, uint64_t to, uint64_t bytes);
  // Writes over the first bytes, which were written before. Only flush() and finish() may follow.
  Status write_first(std::span<const std::byte> bytes);
  // Writes what is held back, so that a full disk shows before finish(), which then has nothing left to
  // write.
  Status flush();
  // From now on, finish() renames to another name in the same folder.
  void aim_at(const std::filesystem::path& path) { target_ = path; }
  Status finish();

private:
  Error failed() const; // with the reason in errno

  std::string name_;              // for messages
  std::filesystem::path target_;  // that finish() replaces
  std::filesystem::path partial_; // the new file; empty: none, the target itself is open
  int registered_ = -1;           // among the unfinished files
  std::FILE* file_ = nullptr;
};

// Removes the new files of all OutputFiles that are open, and those of register_unfinished(), for a signal
// handler that ends the process: only calls functions that may be called there.
void remove_unfinished_files();

// Adds a file that remove_unfinished_files() removes, until forget_unfinished() takes it away again. Returns
// its place; -1, which forget_unfinished() ignores, if there is none left or the name is too long.
int register_unfinished(const std::filesystem::path& path);
void forget_unfinished(int place);

} // namespace pumice
