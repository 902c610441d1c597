#pragma once

#include <chrono>
#include <string>
#include <string_view>

#include "base/progress.h"
#include "base/result.h"
#include "terminal/descriptor.h"
#include "terminal/interrupt.h"

// Standard output, standard error, and progress bars.
namespace pumice::command {

// The standard streams of a run, as numbers of open files.
struct Streams {
  int in = standard_input, out = standard_output, err = standard_error;
};
// For a run that begins: nothing was printed yet, and the verbosity is the usual one.
void use_streams(const Streams& streams);
int input_file();

bool stdout_shows_styles();
bool stdout_is_terminal();
// The width of the terminal that standard output is; 0: it is none, or has none.
unsigned stdout_columns();
bool stderr_is_terminal();
unsigned stderr_columns(); // the same of standard error

// How much is written to standard error.
enum class Verbosity {
  quiet,   // errors
  normal,  // also notes, progress and figures
  verbose, // also details
};
void set_verbosity(Verbosity verbosity);

// These print on standard error. Nothing happens if that fails: there is no place to say so.
void print_to_stderr(std::string_view text);
// "pumice: MESSAGE": an error, or a note, which --quiet leaves out, or a detail, which only --verbose shows.
void print_error(std::string_view message);
// The error of a part of the work, which goes on without it: the exit status is 1 then.
void print_part_error(std::string_view message);
// Whether an error is that of one input, such as one that is too long for the context: others go on.
bool is_of_input(const Error& error);
// Such an error with the input's name before it, unless it begins with that.
Error named_error(const std::string& name, Error error);
void print_note(std::string_view message);
void print_detail(std::string_view message);
// Lines about a run, which --quiet leaves out.
void print_figures(std::string_view lines);

// Prints results to standard output, without buffering. If that fails, it asks all work to stop.
void print_result(std::string_view text);
// From now on print_result() adds to this text instead; null: no more.
void capture_results(std::string* into);
// What print_result() does otherwise. From one thread at a time.
void write_result(std::string_view text);
// Whether standard output could be written so far; with the reason if not. The error is `cancelled` if its
// reader has ended, as `head` does. Call it at the end.
Status finish_output();

// A progress bar on standard error. Shows nothing if that is not a terminal, or with --quiet. The destructor
// erases the bar.
class ProgressBar {
public:
  enum class Look {
    percent, // at once, "LABEL [###   ]  50%"
    counted, // only where it takes long, "LABEL, 23 of 46 [###   ]"
  };
  explicit ProgressBar(std::string label, Look look = Look::percent)
      : label_(std::move(label)), look_(look) {}
  ~ProgressBar() { erase(); }
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  // Shows the progress. Returns false after Ctrl-C.
  bool update(uint64_t done, uint64_t total);
  Progress callback() {
    return [this](uint64_t done, uint64_t total) { return update(done, total); };
  }
  void erase();

private:
  std::string text(uint64_t done, uint64_t total, size_t columns) const;

  std::string label_;
  Look look_;
  bool begun_ = false; // update() was called since the last erase()
  size_t drawn_ = 0;   // characters that are shown
  std::chrono::steady_clock::time_point first_ = {}, last_ = {};
};

// The exit status of a command that succeeds, in place of 0.
void set_exit_status(int status);
int exit_status();

class Stopwatch {
public:
  double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }

private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

} // namespace pumice::command
