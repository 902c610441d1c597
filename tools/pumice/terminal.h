#pragma once

#include <chrono>
#include <string>
#include <string_view>

#include "base/progress.h"
#include "base/result.h"

// Output to a terminal, Ctrl-C, and progress bars.
namespace pumice::command {

bool stdout_is_terminal();
bool stderr_is_terminal();

// From now on, Ctrl-C sets interrupted(); a second Ctrl-C ends the program at once.
void watch_interrupts();
bool interrupted();
// The error Code::cancelled, for a loop that ends because of interrupted().
Error interruption();

// Prints "pumice: MESSAGE" on standard error.
void print_note(std::string_view message);
// Prints results to standard output, without buffering.
void print_result(std::string_view text);

// A progress bar on standard error. Shows nothing if that is not a terminal. The destructor erases the bar.
class ProgressBar {
public:
  explicit ProgressBar(std::string label) : label_(std::move(label)) {}
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
  std::string label_;
  bool drawn_ = false;
  std::chrono::steady_clock::time_point last_ = {};
};

class Stopwatch {
public:
  double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }

private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

} // namespace pumice::command
