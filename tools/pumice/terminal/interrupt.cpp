#include "terminal/interrupt.h"

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <mutex>
#include <utility>

#ifdef _WIN32
#include <windows.h>
#else
#include <thread>

#include <fcntl.h>
#include <sys/time.h>
#include <unistd.h>
#endif

#include "base/guarded.h"
#include "io/output_file.h"
#include "terminal/descriptor.h"
#include "terminal/terminal.h"

namespace pumice::command {

namespace {

constexpr int grace_microseconds = 500'000;      // after the first Ctrl-C
constexpr int last_words_microseconds = 300'000; // to print them
constexpr int reminder_microseconds = 50'000;    // to a reader

std::atomic<bool> stop_asked = false;
static_assert(std::atomic<bool>::is_always_lock_free); // for signal handlers
std::atomic<int> saved_works = 0;
std::atomic<int> stoppable_works = 0;
std::atomic<int> stoppable_readings = 0;   // of them
std::atomic<bool> stops_work_only = false; // what Ctrl-C asked for, while such a work ran
std::atomic<int> asking_signal = SIGINT;   // that asked to stop
std::atomic<bool> speaking = false;        // the last words are being printed
std::atomic<bool> end_awaited = false;     // by who asked to stop

std::mutex last_words_mutex;
std::function<std::string()> last_words;

// From here on, only what may be called in a signal handler.

void erase_bar() {
  if (!moves_cursor(standard_error)) return;
  constexpr char erase_line[] = "\r\033[K";
  if (shows_styles(standard_error)) {
    (void)!write_some(standard_error, erase_line, sizeof erase_line - 1);
    return;
  }
  char blank[256];
  const size_t count = std::min<size_t>(sizeof blank, std::max(columns_of(standard_error), 2u) + 1);
  std::fill_n(blank, count, ' ');
  blank[0] = blank[count - 1] = '\r';
  (void)!write_some(standard_error, blank, count);
}

[[noreturn]] void end_at_once() {
  remove_unfinished_files();
  erase_bar();
  std::_Exit(interrupted_status());
}

#ifdef _WIN32

PTP_TIMER grace_timer = nullptr;

void start_grace(int microseconds = grace_microseconds) {
  ULARGE_INTEGER due; // in units of 100 ns, negative from now on
  due.QuadPart = static_cast<ULONGLONG>(-10LL * microseconds);
  FILETIME time = {due.LowPart, due.HighPart};
  SetThreadpoolTimer(grace_timer, &time, 0, 0);
}

void CALLBACK on_grace_over(PTP_CALLBACK_INSTANCE, void*, PTP_TIMER) {
  if (saved_works > 0) return;
  if (speaking.exchange(true)) end_at_once();
  start_grace(last_words_microseconds);
  print_last_words();
  end_at_once();
}

BOOL WINAPI on_console_event(DWORD event) {
  if (stop_asked.exchange(true)) end_at_once();
  if (event != CTRL_C_EVENT) asking_signal = SIGTERM;
  if (event == CTRL_C_EVENT && stoppable_works > 0) {
    stops_work_only = true;
    return TRUE;
  }
  end_awaited = true;
  start_grace();
  if (event != CTRL_C_EVENT && event != CTRL_BREAK_EVENT) Sleep(INFINITE); // else Windows ends the process
  return TRUE;
}

void handle_signals() {
  grace_timer = CreateThreadpoolTimer(on_grace_over, nullptr, nullptr);
  SetConsoleCtrlHandler(on_console_event, TRUE);
}

void prepare_to_speak() {} // both functions above run on threads of their own

// The console itself ends what reads from it.
void remind_reader() {}
void end_reminders() {}

#else

std::atomic<int> speaker = -1; // wakes the thread that prints the last words; -1: there is none

void start_grace(int microseconds = grace_microseconds) {
  const itimerval once = {{0, 0}, {0, microseconds}};
  setitimer(ITIMER_REAL, &once, nullptr); // a system call; macOS has no timer_settime()
}

// A signal that arrives just before read() begins would not end it, so it is followed by others.
void remind_reader() {
  const timeval period = {0, reminder_microseconds};
  const itimerval often = {period, period};
  setitimer(ITIMER_REAL, &often, nullptr);
}

void end_reminders() {
  const itimerval never = {};
  setitimer(ITIMER_REAL, &never, nullptr);
}

// A terminal that is closed may send SIGHUP twice: itself and by its shell. That is one request.
void on_interrupt(int signal) {
  const bool again = stop_asked.exchange(true);
  if (again && signal != SIGHUP) end_at_once();
  if (again) return;
  asking_signal = signal;
  if (signal == SIGINT && stoppable_works > 0) {
    stops_work_only = true;
    if (stoppable_readings > 0) remind_reader();
    return;
  }
  end_awaited = true;
  start_grace();
}

// The signal's action is the usual one again by now, a core dump: see SA_RESETHAND.
void on_quit(int signal) {
  remove_unfinished_files();
  ::raise(signal);
}

void on_timer(int) {
  if (stops_work_only) return; // a reminder
  if (saved_works > 0) return;
  if (speaker < 0 || speaking.exchange(true)) end_at_once();
  start_grace(last_words_microseconds);
  (void)!::write(speaker, "", 1);
}

void handle(int signal, void (*handler)(int), int flags = 0) {
  struct sigaction before = {}, action = {};
  sigaction(signal, nullptr, &before);
  if (before.sa_handler == SIG_IGN) return;
  action.sa_handler = handler;
  action.sa_flags = flags; // without SA_RESTART: reading from a terminal or a pipe ends, too
  sigaction(signal, &action, nullptr);
}

void handle_signals() {
  handle(SIGALRM, on_timer);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) handle(signal, on_interrupt);
  handle(SIGQUIT, on_quit, SA_RESETHAND);
}

// Work that waits for the device cannot print them, so a thread does, and ends the command.
void prepare_to_speak() {
  if (speaker >= 0) return;
  int ends[2];
  if (::pipe(ends) != 0) return;
  for (const int end : ends) ::fcntl(end, F_SETFD, FD_CLOEXEC);
  const Status started = guarded([&] {
    std::thread([end = ends[0]] {
      char byte = 0;
      while (::read(end, &byte, 1) != 1) {
      }
      print_last_words();
      end_at_once();
    }).detach();
  });
  if (started.ok()) speaker = ends[1];
}

#endif

} // namespace

void set_last_words(std::function<std::string()> text) {
  const std::lock_guard lock(last_words_mutex);
  if (text) prepare_to_speak();
  last_words = std::move(text);
}

void print_last_words() {
  const std::lock_guard lock(last_words_mutex);
  if (!last_words) return;
  if (end_awaited && !speaking.exchange(true)) start_grace(last_words_microseconds);
  (void)guarded([] { print_result(std::exchange(last_words, {})()); });
}

void watch_interrupts() {
  handle_signals();
}

void forget_interrupts() {
  set_last_words({});
  stop_asked = stops_work_only = speaking = end_awaited = false;
}

void interrupt() {
  end_awaited = true;
  stop_work();
}

void stop_work() {
  stops_work_only = false;
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
  if (--saved_works == 0 && end_awaited) start_grace();
}

StoppableWork::StoppableWork() {
  ++stoppable_works;
}

StoppableWork::~StoppableWork() {
  --stoppable_works;
  forget();
}

void StoppableWork::forget() {
  if (stops_work_only.exchange(false)) stop_asked = false;
}

StoppableReading::StoppableReading() {
  ++stoppable_readings;
  if (stopped()) remind_reader(); // just before it was counted
}

StoppableReading::~StoppableReading() {
  --stoppable_readings;
  if (stopped()) end_reminders();
}

bool StoppableWork::stopped() const {
  return stops_work_only;
}

} // namespace pumice::command
