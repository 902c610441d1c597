#pragma once

#include <chrono>
#include <string>
#include <string_view>

#include "base/progress.h"
#include "base/result.h"

// What a person at a terminal sees beside the results.
namespace pumice::command {

bool stdout_is_terminal();
bool stderr_is_terminal();

// Ctrl-C asks for a stop; a second one ends the program at once.
void watch_interrupts();
bool interrupted();
// Code::cancelled, for a loop that saw interrupted().
Error interruption();

// "pumice: MESSAGE" on standard error.
void print_note(std::string_view message);
// Results: to standard output, at once.
void print_result(std::string_view text);

// A bar on standard error, where that is a terminal; elsewhere nothing. Erased when the object goes.
class ProgressBar {
public:
  explicit ProgressBar(std::string label) : label_(std::move(label)) {}
  ~ProgressBar() { erase(); }
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  // Shows how far it is; false once Ctrl-C was pressed.
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
