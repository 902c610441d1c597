#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"

namespace pumice::command {

// Texts from the command line; without any, the lines of standard input as they arrive. A single line is
// returned at once, so that a person at a terminal gets an answer. Lines that have already arrived are
// returned together, so that they can share steps.
class WaitingLines {
public:
  explicit WaitingLines(std::vector<std::string> texts) : texts_(std::move(texts)), given_(!texts_.empty()) {}

  // Waits for a line. Returns it and the lines after it that have already arrived, at most `most`; none at
  // the end. Errors: io; invalid_argument if a line is not UTF-8; cancelled by Ctrl-C.
  Result<std::vector<std::string>> next(size_t most);
  // The name of a text in messages. `text` counts from 0.
  std::string name(uint64_t text) const;

private:
  bool take(std::string& line);
  Status read(bool wait);

  std::vector<std::string> texts_;
  bool given_;
  std::string unread_; // read from standard input, and not returned yet
  bool ended_ = false; // standard input has ended
  bool dry_ = false;   // nothing more has arrived yet
  uint64_t count_ = 0; // texts returned so far
};

} // namespace pumice::command
