#ifdef _WIN32

#include "bench/process.h"

#include <algorithm>
#include <csignal>
#include <cstring>
#include <system_error>

#include <fmt/format.h>

#include "bench/turns.h"
#include "terminal/terminal.h"
#include "terminal/windows_program.h"

namespace pumice::command {

namespace {

constexpr int signalled = 128; // what shells add to the number of a signal

// This program's variables with those of `changes`: each ends with a zero, and the list with another one.
std::string changed_environment(const Process::Environment& changes) {
  std::string all;
  char* const inherited = GetEnvironmentStringsA();
  for (const char* each = inherited; each && *each; each += std::strlen(each) + 1) {
    const std::string variable = each;
    const bool changed = std::ranges::any_of(
        changes, [&](const auto& change) { return variable.starts_with(change.first + "="); });
    if (!changed) all.append(variable).push_back('\0');
  }
  if (inherited) FreeEnvironmentStringsA(inherited);
  for (const auto& [name, value] : changes) all.append(name + "=" + value).push_back('\0');
  all.push_back('\0');
  return all;
}

} // namespace

bool can_be_started(const std::string& name) {
  return SearchPathA(nullptr, name.c_str(), ".exe", 0, nullptr, nullptr) > 0;
}

struct Process::Running {
  HANDLE process = nullptr; // none: it has not started, or has ended
  Stopwatch watch;
  double seconds = 0; // until its end
  WindowsPipe out, err, asks, turns;
  std::string out_text, err_text, questions;

  ~Running() {
    if (!process) return;
    end();
    (void)wait_for_end();
  }

  void end() const { TerminateProcess(process, signalled + SIGTERM); }

  // Returns Windows' number of an error, or 0.
  int spawn(const std::vector<std::string>& command, Environment environment, bool with_turns) {
    if (with_turns) {
      const auto number = [](HANDLE handle) { return reinterpret_cast<intptr_t>(handed_on(handle)); };
      environment.emplace_back(turns_variable,
                               fmt::format("{},{}", number(turns.ends[0]), number(asks.ends[1])));
    }
    std::string variables = changed_environment(environment);
    const HANDLE nothing =
        CreateFileA("NUL", GENERIC_READ, FILE_SHARE_READ, nullptr, OPEN_EXISTING, 0, nullptr);
    process = start_program(command, &variables, nothing, out.ends[1], err.ends[1]);
    const int error = process ? 0 : static_cast<int>(GetLastError());
    CloseHandle(nothing);
    for (WindowsPipe* pipe : {&out, &err, &asks}) pipe->close_end(1);
    turns.close_end(0);
    return error;
  }

  // Reads what the program writes until it asks for a turn, has closed everything, or Ctrl-C ends it.
  void listen() {
    while (questions.empty() && (out.is_open(0) || err.is_open(0) || asks.is_open(0))) {
      if (interrupted()) {
        end();
        return;
      }
      bool wrote = out.read_to(out_text);
      wrote = err.read_to(err_text) || wrote;
      wrote = asks.read_to(questions) || wrote;
      if (!wrote) Sleep(pipe_pause);
    }
  }

  int wait_for_end() {
    const DWORD status = end_of_program(process);
    seconds = watch.seconds();
    constexpr DWORD crashed = 0xC0000000; // and above: the codes of errors that end a program
    return status >= crashed ? signalled + SIGSEGV : static_cast<int>(status);
  }
};

Process::Process(std::unique_ptr<Running> running) : running_(std::move(running)) {}
Process::Process(Process&&) noexcept = default;
Process::~Process() = default;

Result<Process> Process::start(const std::vector<std::string>& command, Environment environment, bool turns) {
  auto running = std::make_unique<Running>();
  const auto reason = [](int error) { return std::system_category().message(error); };
  if (!running->out.open() || !running->err.open() || !running->asks.open() || !running->turns.open()) {
    return Error{Code::io,
                 fmt::format("a pipe could not be made: {}", reason(static_cast<int>(GetLastError())))};
  }
  if (const int error = running->spawn(command, std::move(environment), turns))
    return Error{Code::not_found, fmt::format("{} could not be started: {}", command[0], reason(error))};
  return Process(std::move(running));
}

bool Process::asks_for_turn() {
  running_->listen();
  return !running_->questions.empty() && !interrupted();
}

void Process::give_turn() {
  running_->questions.clear();
  DWORD written = 0; // a program that has ended meanwhile is noticed by the next read
  WriteFile(running_->turns.ends[1], "", 1, &written, nullptr);
}

Result<ProcessOutput> Process::finish() {
  while (asks_for_turn()) give_turn();
  ProcessOutput result;
  result.status = running_->wait_for_end();
  result.seconds = running_->seconds;
  result.out = std::move(running_->out_text);
  result.err = std::move(running_->err_text);
  if (interrupted()) return interruption();
  return result;
}

Result<ProcessOutput> run_process(const std::vector<std::string>& command, Process::Environment environment) {
  PUMICE_TRY(Process process, Process::start(command, std::move(environment)));
  return process.finish();
}

} // namespace pumice::command

#endif
