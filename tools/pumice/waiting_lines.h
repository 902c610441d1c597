#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"

namespace pumice::command {

// Texts from the command line, or else the lines of standard input as they come: who types a line, or writes
// one into a pipe and waits, gets it answered; lines that are there already are worked on together.
class WaitingLines {
public:
  explicit WaitingLines(std::vector<std::string> texts) : texts_(std::move(texts)), given_(!texts_.empty()) {}

  // Waits for a line, and takes those behind it that need no waiting: at most so many. None at the end.
  // Errors: io; invalid_argument for what is not UTF-8; cancelled by Ctrl-C.
  Result<std::vector<std::string>> next(size_t most);
  // Of a text, as messages name it: the first is 0.
  std::string name(uint64_t text) const;

private:
  bool take(std::string& line);
  Status read(bool wait);

  std::vector<std::string> texts_;
  bool given_;
  std::string unread_; // of standard input
  bool ended_ = false; // standard input
  bool dry_ = false;   // nothing more is there yet
  uint64_t count_ = 0; // of what has been given out
};

} // namespace pumice::command
