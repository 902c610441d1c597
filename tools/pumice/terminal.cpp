#include "terminal.h"

#include <algorithm>
#include <csignal>
#include <cstdio>

#include <fmt/format.h>
#include <unistd.h>

namespace pumice::command {

namespace {

volatile std::sig_atomic_t interrupt_seen = 0;

void on_interrupt(int) {
  interrupt_seen = 1;
  std::signal(SIGINT, SIG_DFL);
}

} // namespace

bool stdout_is_terminal() {
  return isatty(STDOUT_FILENO) == 1;
}
bool stderr_is_terminal() {
  return isatty(STDERR_FILENO) == 1;
}

void watch_interrupts() {
  std::signal(SIGINT, on_interrupt);
}
bool interrupted() {
  return interrupt_seen != 0;
}
Error interruption() {
  return Error{Code::cancelled, "stopped"};
}

void print_note(std::string_view message) {
  fmt::print(stderr, "pumice: {}\n", message);
}

void print_result(std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

bool ProgressBar::update(uint64_t done, uint64_t total) {
  if (interrupted()) return false;
  if (!stderr_is_terminal() || total == 0) return true;
  const auto now = std::chrono::steady_clock::now();
  if (drawn_ && done < total && now - last_ < std::chrono::milliseconds(50)) return true;
  constexpr uint64_t width = 30;
  const uint64_t filled = width * std::min(done, total) / total;
  fmt::print(stderr, "\r\033[K{} [{}{}] {:3}%", label_, std::string(filled, '#'),
             std::string(width - filled, ' '), 100 * std::min(done, total) / total);
  std::fflush(stderr);
  drawn_ = true;
  last_ = now;
  return true;
}

void ProgressBar::erase() {
  if (drawn_) fmt::print(stderr, "\r\033[K");
  std::fflush(stderr);
  drawn_ = false;
}

} // namespace pumice::command
