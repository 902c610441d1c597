#pragma once

#include <string>

#include "base/result.h"

namespace pumice::command {

// In messages: the file, or "standard input" for "-".
std::string input_name(const std::string& path);

// A file, or standard input under the name "-", that is read in pieces as they arrive. Ctrl-C ends waiting
// for a piece.
class InputStream {
public:
  explicit InputStream(std::string path) : path_(std::move(path)) {}
  ~InputStream();
  InputStream(InputStream&& other) noexcept;
  InputStream& operator=(InputStream&&) = delete;

  // Appends the next piece to `text`, and returns whether there was one. `wait`: waits until something
  // arrives or the input ends. Errors: io; cancelled by Ctrl-C.
  Result<bool> read(std::string& text, bool wait);
  // Whether something arrives, or the input ends, within this time. Errors: io; cancelled by Ctrl-C.
  Result<bool> arrives(int milliseconds);
  bool ended() const { return ended_; }
  std::string name() const { return input_name(path_); }
  // Whether a person types the input.
  bool is_terminal() const;

private:
  bool is_standard_input() const { return path_ == "-"; }
  Status open();
  Error cannot_read(int number) const;

  std::string path_;
  int descriptor_ = -1; // none yet
  bool ended_ = false;
};

// Everything that is left, as it is. If a person types it, a note says what is waited for.
Result<std::string> read_all(InputStream& stream);

// Text from a file or a pipe as it is meant: without a byte order mark, without the carriage returns of
// line ends, and without the final newline, which editors and `echo` add.
std::string without_marks(std::string text);
// Reads such a text from a file; "-" is standard input. Errors: io; invalid_argument if it is not UTF-8.
Result<std::string> read_text(const std::string& path);

// Whether standard input is a pipe or a file, rather than a terminal or /dev/null.
bool input_is_given();

} // namespace pumice::command
