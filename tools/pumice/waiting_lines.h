#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "base/result.h"

namespace pumice::command {

struct Line {
  uint64_t number = 0; // counted from 1; lines that were left out count, too
  std::string text;
};

// Texts from the command line; without any, the lines of standard input as they arrive. A single line is
// returned at once, so that a person at a terminal gets an answer. Lines that have already arrived are
// returned together, so that they can share steps.
class WaitingLines {
public:
  WaitingLines(std::vector<std::string> texts, bool skip_bad)
      : texts_(std::move(texts)), given_(!texts_.empty()), skip_bad_(skip_bad) {}

  // Waits for a line. Returns it and the lines after it that have already arrived, at most `most`; none at
  // the end. The lines before one that is not UTF-8 are returned before its error. Errors: io;
  // invalid_argument if a line is not UTF-8; cancelled by Ctrl-C.
  Result<std::vector<Line>> next(size_t most);
  // The name of a line in messages.
  std::string name(const Line& line) const;
  // What becomes of a line that cannot be used: a note if such lines are to be left out, otherwise the error.
  Status reject(Error error) const;

private:
  bool take(std::string& line);
  Status read(bool wait);

  std::vector<std::string> texts_;
  bool given_;
  bool skip_bad_;
  std::string unread_;          // read from standard input, and not returned yet
  bool ended_ = false;          // standard input has ended
  bool dry_ = false;            // nothing more has arrived yet
  uint64_t count_ = 0;          // lines so far
  std::optional<Error> failed_; // for the next call
};

// Adds --skip-bad-lines.
void add_skip_option(CLI::App& app, bool& skip_bad);

} // namespace pumice::command
