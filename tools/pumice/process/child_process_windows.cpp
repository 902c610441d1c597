#ifdef _WIN32

#include "process/child_process.h"

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <thread>

#include <fcntl.h>
#include <fmt/format.h>
#include <io.h>

#include "io/output_file.h"
#include "process/this_process.h"
#include "terminal/descriptor.h"
#include "terminal/terminal.h"
#include "terminal/windows_program.h"

namespace pumice::command {

namespace {

constexpr UINT was_killed = 0xC0000001;     // exit code of a child that kill() has ended
constexpr DWORD crashed_codes = 0xC0000000; // and above: of errors that end a program

void say_to(int file, const std::string& line) {
  const std::string text = line + "\n";
  for (size_t at = 0; at < text.size();) {
    const ptrdiff_t count = write_some(file, text.data() + at, text.size() - at);
    if (count <= 0) return;
    at += static_cast<size_t>(count);
  }
}

} // namespace

struct ChildProcess::Running {
  HANDLE process = nullptr; // none: it has not started, or its end is known
  WindowsPipe to, from;
  std::string heard; // and not given out yet
  End end;

  ~Running() { stop(); }

  // The child ends itself when it has no parent: it takes its notes away then.
  void stop() {
    constexpr DWORD patience = 200; // milliseconds
    if (!process) return;
    to.close_end(1);
    if (WaitForSingleObject(process, patience) != WAIT_OBJECT_0) TerminateProcess(process, was_killed);
    wait();
  }

  // The code of an error that ended it is its `signal`; Windows has no signals.
  void wait() {
    const DWORD code = end_of_program(process);
    end = code >= crashed_codes ? End{static_cast<int>(code), 0} : End{0, static_cast<int>(code)};
  }

  bool take_line(std::string& line) {
    const size_t length = heard.find('\n');
    if (length == std::string::npos) return false;
    line = heard.substr(0, length);
    heard.erase(0, length + 1);
    return true;
  }
};

ChildProcess::ChildProcess(std::unique_ptr<Running> running) : running_(std::move(running)) {}
ChildProcess::ChildProcess(ChildProcess&&) noexcept = default;
ChildProcess::~ChildProcess() = default;

Result<ChildProcess> ChildProcess::start(const std::string& argument) {
  auto running = std::make_unique<Running>();
  if (running->to.open() && running->from.open()) {
    running->process = start_program({program_to_start(), argument}, nullptr, running->to.ends[0],
                                     running->from.ends[1], GetStdHandle(STD_ERROR_HANDLE));
  }
  if (!running->process) {
    return Error{Code::unsupported,
                 fmt::format("a child process could not be started: {}",
                             std::system_category().message(static_cast<int>(GetLastError())))};
  }
  running->to.close_end(0);
  running->from.close_end(1);
  return ChildProcess(std::move(running));
}

void ChildProcess::say(const std::string& line) {
  const std::string text = line + "\n";
  DWORD written = 0;
  WriteFile(running_->to.ends[1], text.data(), static_cast<DWORD>(text.size()), &written, nullptr);
}

ChildProcess::Heard ChildProcess::listen(std::string& line, double seconds) {
  const Stopwatch watch;
  while (!running_->take_line(line)) {
    if (interrupted()) return Heard::interrupt;
    if (!running_->from.is_open(0)) return Heard::end;
    if (watch.seconds() > seconds) return Heard::silence;
    if (!running_->from.read_to(running_->heard)) Sleep(pipe_pause);
  }
  return Heard::line;
}

void ChildProcess::kill() {
  running_->stop();
}

ChildProcess::End ChildProcess::end() {
  if (running_->process) running_->wait();
  return running_->end;
}

bool ChildProcess::End::crashed() const {
  const auto code = static_cast<DWORD>(signal);
  return signal == 0 ? status != 0 : code != was_killed && code != STATUS_CONTROL_C_EXIT;
}

std::string ChildProcess::End::text() const {
  switch (static_cast<DWORD>(signal)) {
  case 0:
    return fmt::format("exit status {}", status);
  case STATUS_ACCESS_VIOLATION:
    return "access violation";
  case STATUS_ILLEGAL_INSTRUCTION:
    return "illegal instruction";
  case STATUS_STACK_OVERFLOW:
    return "stack overflow";
  case was_killed:
    return "ended from outside";
  default:
    return fmt::format("error 0x{:08X}", static_cast<DWORD>(signal));
  }
}

ParentProcess::ParentProcess() {
  SetConsoleCtrlHandler(nullptr, TRUE);                         // Ctrl-C: the parent ends it
  SetErrorMode(SEM_FAILCRITICALERRORS | SEM_NOGPFAULTERRORBOX); // its parent says where it crashed
  // What drivers print goes to standard error.
  out_ = _dup(standard_output);
  _dup2(standard_error, standard_output);
  char letter = 0;
  while (read_some(standard_input, &letter, 1) == 1 && letter != '\n') request_ += letter;
  std::thread([] {
    char ignored = 0;
    while (read_some(standard_input, &ignored, 1) > 0) {
    }
    remove_unfinished_files();
    std::_Exit(1);
  }).detach();
}

void ParentProcess::say(const std::string& line) const {
  say_to(out_, line);
}

} // namespace pumice::command

#endif
