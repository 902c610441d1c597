#ifndef _WIN32 // process_windows.cpp is the other one

#include "bench/process.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <sstream>

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench/turns.h"
#include "terminal/terminal.h"

extern char** environ;

namespace pumice::command {

namespace {

constexpr int signalled = 128; // what shells add to the number of a signal

// This program's variables with those of `changes`, as execve() takes them.
std::vector<std::string> changed_environment(const Process::Environment& changes) {
  std::vector<std::string> all;
  for (char** each = environ; *each; ++each) {
    const std::string variable = *each;
    bool changed = false;
    for (const auto& [name, value] : changes) changed = changed || variable.starts_with(name + "=");
    if (!changed) all.push_back(variable);
  }
  for (const auto& [name, value] : changes) all.push_back(name + "=" + value);
  return all;
}

std::vector<char*> pointers(std::vector<std::string>& words) {
  std::vector<char*> result;
  for (std::string& word : words) result.push_back(word.data());
  result.push_back(nullptr);
  return result;
}

bool is_program(const std::filesystem::path& path) {
  std::error_code error;
  return std::filesystem::is_regular_file(path, error) && access(path.c_str(), X_OK) == 0;
}

} // namespace

bool can_be_started(const std::string& name) {
  if (name.find('/') != std::string::npos) return is_program(name);
  const char* folders = std::getenv("PATH");
  std::istringstream list(folders ? folders : "");
  for (std::string folder; std::getline(list, folder, ':');) {
    if (is_program(std::filesystem::path(folder) / name)) return true;
  }
  return false;
}

struct Process::Running {
  struct Pipe {
    int ends[2] = {-1, -1}; // where it is read, where it is written

    Pipe() = default;
    ~Pipe() {
      close_end(0);
      close_end(1);
    }
    Pipe(const Pipe&) = delete;
    Pipe& operator=(const Pipe&) = delete;

    bool open() {
      if (pipe(ends) != 0) return false; // macOS has no pipe2()
      for (const int end : ends) fcntl(end, F_SETFD, FD_CLOEXEC);
      return true;
    }
    bool is_open(int end) const { return ends[end] >= 0; }
    void close_end(int end) {
      if (ends[end] >= 0) close(ends[end]);
      ends[end] = -1;
    }
    // What is there, if anything. Closes the pipe at its end.
    void read_to(std::string& text) {
      std::array<char, 65536> block;
      const ssize_t count = read(ends[0], block.data(), block.size());
      if (count > 0) text.append(block.data(), static_cast<size_t>(count));
      if (count == 0 || (count < 0 && errno != EINTR && errno != EAGAIN)) close_end(0);
    }
  };

  pid_t pid = 0; // 0: it has not started, or has ended
  Stopwatch watch;
  double seconds = 0; // until its end
  Pipe out, err, asks, turns;
  std::string out_text, err_text, questions;

  ~Running() {
    if (pid == 0) return;
    kill(pid, SIGTERM);
    (void)wait_for_end();
  }

  int spawn(std::vector<std::string> command, std::vector<std::string> environment, bool with_turns) {
    // Numbers above those of all pipes, so that none replaces another.
    int highest = 0;
    for (const Pipe* pipe : {&out, &err, &asks, &turns})
      highest = std::max({highest, pipe->ends[0], pipe->ends[1]});
    const int read_turns = highest + 1, write_asks = highest + 2;
    if (with_turns) environment.push_back(fmt::format("{}={},{}", turns_variable, read_turns, write_asks));
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, out.ends[1], STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&actions, err.ends[1], STDERR_FILENO);
    if (with_turns) {
      posix_spawn_file_actions_adddup2(&actions, turns.ends[0], read_turns);
      posix_spawn_file_actions_adddup2(&actions, asks.ends[1], write_asks);
    }
    const int error = posix_spawnp(&pid, command[0].c_str(), &actions, nullptr, pointers(command).data(),
                                   pointers(environment).data());
    posix_spawn_file_actions_destroy(&actions);
    if (error) pid = 0;
    for (Pipe* pipe : {&out, &err, &asks}) pipe->close_end(1);
    turns.close_end(0);
    return error;
  }

  // Reads what the program writes until it asks for a turn, has closed everything, or Ctrl-C ends it.
  void listen() {
    constexpr int patience = 100; // milliseconds between two looks for Ctrl-C
    const std::array<std::pair<Pipe*, std::string*>, 3> all = {
        {{&out, &out_text}, {&err, &err_text}, {&asks, &questions}}};
    while (questions.empty() && (out.is_open(0) || err.is_open(0) || asks.is_open(0))) {
      std::array<pollfd, 3> files = {};
      for (size_t i = 0; i < all.size(); ++i) files[i] = {all[i].first->ends[0], POLLIN, 0};
      (void)poll(files.data(), files.size(), patience);
      if (interrupted()) {
        kill(pid, SIGTERM);
        return;
      }
      for (size_t i = 0; i < all.size(); ++i) {
        if (files[i].revents) all[i].first->read_to(*all[i].second);
      }
    }
  }

  int wait_for_end() {
    int status = 0;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
    pid = 0;
    seconds = watch.seconds();
    return WIFEXITED(status) ? WEXITSTATUS(status) : signalled + WTERMSIG(status);
  }
};

Process::Process(std::unique_ptr<Running> running) : running_(std::move(running)) {}
Process::Process(Process&&) noexcept = default;
Process::~Process() = default;

Result<Process> Process::start(const std::vector<std::string>& command, Environment environment, bool turns) {
  auto running = std::make_unique<Running>();
  if (!running->out.open() || !running->err.open() || !running->asks.open() || !running->turns.open()) {
    return Error{Code::io, fmt::format("a pipe could not be made: {}", std::strerror(errno))};
  }
  if (const int error = running->spawn(command, changed_environment(environment), turns)) {
    return Error{Code::not_found,
                 fmt::format("{} could not be started: {}", command[0], std::strerror(error))};
  }
  return Process(std::move(running));
}

bool Process::asks_for_turn() {
  running_->listen();
  return !running_->questions.empty() && !interrupted();
}

void Process::give_turn() {
  running_->questions.clear();
  // A program that has ended meanwhile is noticed by the next read.
  (void)!write(running_->turns.ends[1], "", 1);
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
