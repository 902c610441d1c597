#include "interrupt.h"

#include <csignal>

#include <sys/time.h>
#include <unistd.h>

#include "io/output_file.h"

namespace pumice::command {

namespace {

constexpr int grace_microseconds = 500'000; // after the first Ctrl-C

std::atomic<bool> stop_asked = false;
static_assert(std::atomic<bool>::is_always_lock_free); // for signal handlers
std::atomic<int> saved_works = 0;

// From here on, only what may be called in a signal handler.

[[noreturn]] void end_at_once() {
  remove_unfinished_files();
  constexpr char erase_line[] = "\r\033[K"; // of a progress bar
  if (::isatty(STDERR_FILENO)) (void)!::write(STDERR_FILENO, erase_line, sizeof erase_line - 1);
  ::_exit(exit_interrupted);
}

void start_grace() {
  const itimerval once = {{0, 0}, {0, grace_microseconds}};
  setitimer(ITIMER_REAL, &once, nullptr); // a system call; macOS has no timer_settime()
}

void on_interrupt(int) {
  if (stop_asked.exchange(true)) end_at_once();
  start_grace();
}

void on_grace_over(int) {
  if (saved_works == 0) end_at_once();
}

void handle(int signal, void (*handler)(int)) {
  struct sigaction action = {};
  action.sa_handler = handler; // without SA_RESTART: reading from a terminal or a pipe ends, too
  sigaction(signal, &action, nullptr);
}

} // namespace

void watch_interrupts() {
  struct sigaction before = {};
  sigaction(SIGINT, nullptr, &before);
  if (before.sa_handler == SIG_IGN) return;
  handle(SIGALRM, on_grace_over);
  handle(SIGINT, on_interrupt);
}

void interrupt() {
  stop_asked = true;
}

bool interrupted() {
  return stop_asked;
}

const std::atomic<bool>& interrupt_flag() {
  return stop_asked;
}

Error interruption() {
  return Error{Code::cancelled, "stopped"};
}

SavedWork::SavedWork() {
  ++saved_works;
}

SavedWork::~SavedWork() {
  if (--saved_works == 0 && stop_asked) start_grace();
}

} // namespace pumice::command
