#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "base/result.h"
#include "input/input_stream.h"

namespace pumice::command {

// What a request has from all requests before it, where other processes have some of them.
struct RequestPlace {
  uint64_t index = 0;
  uint64_t seed = 0; // of its first text
};

struct Line {
  uint64_t number = 0; // counted from 1; lines that were left out count, too
  std::string text;
  std::optional<RequestPlace> place = {};
  std::string kept = {};           // what it has come to in an earlier run (answered_lines.h); empty: nothing
  std::optional<Error> error = {}; // why it cannot be used
};

// What is printed in the place of the answer to a line that cannot be used.
using ErrorRow = std::function<std::string(const Line& line, const Error& error)>;

// The texts that a subcommand is given.
struct TextOptions {
  std::vector<std::string> texts; // none: the lines of `file`
  std::string file = "-";         // "-": standard input
  bool skip_bad = false;          // lines that cannot be used are left out, without a trace in the results
  bool paragraphs = false;        // lines up to a blank one are one text, and count as one
  std::string resume;             // see answered_lines.h; empty: nothing is kept

  bool has_file() const { return file != "-"; }
};
// Adds the arguments NAME, --file in their place, and --skip-bad-lines.
void add_text_options(CLI::App& app, TextOptions& options, const char* name, const std::string& help);

// Adds --resume, for commands that tell of each answer with end_line() (replicas.h).
void add_resume_option(CLI::App& app, std::string& resume);

// Texts from the command line; without any, the lines of a file, or of standard input as they arrive. A
// single line is returned at once, so that a person at a terminal gets an answer. Lines that have already
// arrived are returned together, so that they can share steps. Of several copies of a model, each has lines
// of its own (replicas.h).
class WaitingLines {
public:
  explicit WaitingLines(const TextOptions& options)
      : texts_(options.texts), given_(!texts_.empty()), skip_bad_(options.skip_bad),
        paragraphs_(options.paragraphs), resume_(options.resume), input_(options.file) {}
  ~WaitingLines();
  WaitingLines(const WaitingLines&) = delete;
  WaitingLines& operator=(const WaitingLines&) = delete;

  // Of several copies: checks each line, or completes it, in the process that reads all of them, before a
  // copy gets it. Returns whether a copy is to get it. It also gets the lines that earlier runs have
  // answered.
  using Prepare = std::function<Result<bool>(Line& line)>;
  void prepare_with(Prepare prepare) { prepare_ = std::move(prepare); }
  // Without it, nothing is printed in the place of such an answer.
  void answer_bad_with(ErrorRow row) { error_row_ = std::move(row); }

  // Waits for a line. Returns it and the lines after it that have already arrived, at most `most`; none at
  // the end. One that is not UTF-8 comes with its error. Without `wait`, returns none as well if none has
  // arrived. Errors: io; cancelled by Ctrl-C.
  Result<std::vector<Line>> next(size_t most, bool wait = true);
  // Whether all lines were returned.
  bool ended() const;
  // The name of a line in messages.
  std::string name(const Line& line) const;
  // Tells that a line cannot be used, when its turn comes: the command goes on, and its exit status is 1. If
  // such lines are to be left out, it is a note.
  Status reject(const Line& line, const Error& error) const;

private:
  std::string tell(const Line& line, const Error& error) const;
  Result<std::vector<Line>> read_lines(size_t most, bool wait);
  bool all_read() const;
  Result<bool> use(Line& line) const;
  bool take(std::string& line);
  std::optional<std::string> line_at(size_t& at) const;
  Status read(bool wait);

  std::vector<std::string> texts_;
  bool given_;
  bool skip_bad_;
  bool paragraphs_;
  std::string resume_;
  Prepare prepare_;
  ErrorRow error_row_;
  InputStream input_;
  std::string unread_;     // arrived, and not returned yet
  size_t taken_ = 0;       // bytes of `unread_` that were returned
  bool dry_ = false;       // nothing more has arrived yet
  bool announced_ = false; // a person was told what is waited for
  uint64_t count_ = 0;     // lines so far
};

} // namespace pumice::command
