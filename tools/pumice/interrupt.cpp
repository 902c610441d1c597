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
std::atomic<int> asking_signal = SIGINT; // that asked to stop

// From here on, only what may be called in a signal handler.

[[noreturn]] void end_at_once() {
  remove_unfinished_files();
  constexpr char erase_line[] = "\r\033[K"; // of a progress bar
  if (::isatty(STDERR_FILENO)) (void)!::write(STDERR_FILENO, erase_line, sizeof erase_line - 1);
  ::_exit(interrupted_status());
}

void start_grace() {
  const itimerval once = {{0, 0}, {0, grace_microseconds}};
  setitimer(ITIMER_REAL, &once, nullptr); // a system call; macOS has no timer_settime()
}

// A terminal that is closed may send SIGHUP twice: itself and by its shell. That is one request.
void on_interrupt(int signal) {
  const bool again = stop_asked.exchange(true);
  if (again && signal != SIGHUP) end_at_once();
  if (again) return;
  asking_signal = signal;
  start_grace();
}

// The signal's action is the usual one again by now, a core dump: see SA_RESETHAND.
void on_quit(int signal) {
  remove_unfinished_files();
  ::raise(signal);
}

void on_grace_over(int) {
  if (saved_works == 0) end_at_once();
}

void handle(int signal, void (*handler)(int), int flags = 0) {
  struct sigaction before = {}, action = {};
  sigaction(signal, nullptr, &before);
  if (before.sa_handler == SIG_IGN) return;
  action.sa_handler = handler;
  action.sa_flags = flags; // without SA_RESTART: reading from a terminal or a pipe ends, too
  sigaction(signal, &action, nullptr);
}

} // namespace

void watch_interrupts() {
  handle(SIGALRM, on_grace_over);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) handle(signal, on_interrupt);
  handle(SIGQUIT, on_quit, SA_RESETHAND);
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

int interrupted_status() {
  return 128 + asking_signal;
}

SavedWork::SavedWork() {
  ++saved_works;
}

SavedWork::~SavedWork() {
  if (--saved_works == 0 && stop_asked) start_grace();
}

} // namespace pumice::command
