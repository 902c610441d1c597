#pragma once

#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "gpu/cache_folder/device_file.h"
#include "io/locked_file.h"

namespace pumice {

// A tuning result that counts only if this process ends before it takes the note away: what is written before
// something is tried that may end the process or stop the machine. A note is a file beside the device's file,
// locked as long as its process lives. Ending by remove_unfinished_files() takes it away too: somebody wanted
// that end.
class TrialNote {
public:
  // Of a device's file; empty: nothing is kept anywhere.
  explicit TrialNote(std::filesystem::path device_file) : device_file_(std::move(device_file)) {}
  ~TrialNote(); // takes it away
  TrialNote(const TrialNote&) = delete;
  TrialNote& operator=(const TrialNote&) = delete;

  // The file is on the disk afterwards, if it is the first note of this name. Error io if the folder cannot
  // be written to.
  Status write(const std::string& name, const std::string& value);
  void take_away();
  // Leaves a note for the next start although this process lives on.
  void leave(const std::string& name, const std::string& value);
  // Where the note is; empty: nowhere.
  const std::filesystem::path& path() const { return path_; }

private:
  std::filesystem::path device_file_, path_;
  LockedFile file_;
  int registered_ = -1;         // among the unfinished files
  std::set<std::string> names_; // of notes that were on the disk
};

// A note of a process that has ended, or has left it.
struct LeftNote {
  std::filesystem::path path;
  std::string name, value; // the tuning result
};
// Those beside a device's file.
std::vector<LeftNote> left_notes(const std::filesystem::path& device_file);
// Removes those of a name.
void forget_notes(const std::filesystem::path& device_file, const std::string& name);

} // namespace pumice
