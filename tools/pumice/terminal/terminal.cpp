#include "terminal/terminal.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <iostream>
#include <optional>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "process/processes.h"
#include "terminal/descriptor.h"

namespace pumice::command {

namespace {

std::optional<int> output_problem; // the errno of writing to standard output; none: it could be written
Verbosity chosen_verbosity = Verbosity::normal;
int status_of_success = 0;
std::string* captured = nullptr; // what is printed instead of on standard output

void note_output_problem() {
  if (!output_problem) output_problem = errno ? errno : EIO;
}

} // namespace

// Open MPI reads what its processes print through terminals of its own, also where it writes that to a file.
bool stdout_is_terminal() {
  return is_terminal(standard_output) && !started_with_others();
}
bool stderr_is_terminal() {
  return is_terminal(standard_error);
}

void set_verbosity(Verbosity verbosity) {
  chosen_verbosity = verbosity;
}

void print_to_stderr(std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stderr);
  std::fflush(stderr);
}

void print_error(std::string_view message) {
  print_to_stderr(fmt::format("pumice: {}\n", message));
}

void set_exit_status(int status) {
  status_of_success = status;
}
int exit_status() {
  return status_of_success;
}

void print_note(std::string_view message) {
  if (chosen_verbosity != Verbosity::quiet) print_error(message);
}

void print_detail(std::string_view message) {
  if (chosen_verbosity == Verbosity::verbose) print_error(message);
}

void print_figures(std::string_view lines) {
  if (chosen_verbosity != Verbosity::quiet) print_to_stderr(lines);
}

void capture_results(std::string* into) {
  captured = into;
}

void print_result(std::string_view text) {
  if (captured) {
    *captured += text;
  } else {
    write_result(text);
  }
}

void write_result(std::string_view text) {
  if (output_problem) return;
  errno = 0;
  const bool written = std::fwrite(text.data(), 1, text.size(), stdout) == text.size();
  if ((written && std::fflush(stdout) == 0) || interrupted()) return;
  note_output_problem();
  interrupt();
}

Status finish_output() {
  errno = 0;
  std::cout.flush();
  if (std::fflush(stdout) != 0 || std::ferror(stdout)) {
    if (!interrupted()) note_output_problem();
  }
  if (!output_problem) return {};
  return Error{*output_problem == EPIPE ? Code::cancelled : Code::io,
               "standard output: it could not be written: " +
                   std::generic_category().message(*output_problem)};
}

std::string ProgressBar::text(uint64_t done, uint64_t total) const {
  constexpr uint64_t width = 30;
  const uint64_t filled = width * done / total;
  const std::string bar = fmt::format("[{}{}]", std::string(filled, '#'), std::string(width - filled, ' '));
  return look_ == Look::counted ? fmt::format("{}, {} of {} {}", label_, done, total, bar)
                                : fmt::format("{} {} {:3}%", label_, bar, 100 * done / total);
}

bool ProgressBar::update(uint64_t done, uint64_t total) {
  if (interrupted()) return false;
  if (chosen_verbosity == Verbosity::quiet || !stderr_is_terminal() || total == 0) return true;
  const auto now = std::chrono::steady_clock::now();
  if (!std::exchange(begun_, true)) first_ = now;
  if (look_ == Look::counted && now - first_ < std::chrono::milliseconds(300)) return true;
  if (drawn_ && done < total && now - last_ < std::chrono::milliseconds(50)) return true;
  print_to_stderr("\r\033[K" + text(std::min(done, total), total));
  drawn_ = true;
  last_ = now;
  return true;
}

void ProgressBar::erase() {
  if (drawn_) print_to_stderr("\r\033[K");
  begun_ = drawn_ = false;
}

} // namespace pumice::command
