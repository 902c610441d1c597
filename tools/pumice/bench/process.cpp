#include "tools/pumice/bench/process.h"

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tools/pumice/terminal.h"

extern char** environ;

namespace pumice::command {

namespace {

constexpr int signalled = 128; // what shells add to the number of a signal

// The reading end of a pipe that a program writes into.
struct OutputPipe {
  int ends[2] = {-1, -1};
  std::string text;

  ~OutputPipe() {
    close_end(0);
    close_end(1);
  }
  bool open() { return pipe2(ends, O_CLOEXEC) == 0; }
  void close_end(int end) {
    if (ends[end] >= 0) close(ends[end]);
    ends[end] = -1;
  }
  void read_some() {
    std::array<char, 65536> block;
    const ssize_t count = read(ends[0], block.data(), block.size());
    if (count > 0) text.append(block.data(), static_cast<size_t>(count));
    if (count == 0 || (count < 0 && errno != EINTR && errno != EAGAIN)) close_end(0);
  }
};

// This program's variables with those of `changes`, as execve() takes them.
std::vector<std::string>
changed_environment(const std::vector<std::pair<std::string, std::string>>& changes) {
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

int spawn(std::vector<std::string> command, std::vector<std::string> environment, const OutputPipe& out,
          const OutputPipe& err, pid_t& pid) {
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, out.ends[1], STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, err.ends[1], STDERR_FILENO);
  const int error = posix_spawnp(&pid, command[0].c_str(), &actions, nullptr, pointers(command).data(),
                                 pointers(environment).data());
  posix_spawn_file_actions_destroy(&actions);
  return error;
}

// Reads both outputs until the program has closed them. Ends it after Ctrl-C.
void read_outputs(OutputPipe& out, OutputPipe& err, pid_t pid) {
  constexpr int patience = 100; // milliseconds between two looks for Ctrl-C
  while (out.ends[0] >= 0 || err.ends[0] >= 0) {
    std::array<pollfd, 2> files = {pollfd{out.ends[0], POLLIN, 0}, pollfd{err.ends[0], POLLIN, 0}};
    (void)poll(files.data(), files.size(), patience);
    if (interrupted()) {
      kill(pid, SIGTERM);
      return;
    }
    if (files[0].revents) out.read_some();
    if (files[1].revents) err.read_some();
  }
}

} // namespace

Result<ProcessOutput> run_process(const std::vector<std::string>& command,
                                  const std::vector<std::pair<std::string, std::string>>& environment) {
  OutputPipe out, err;
  if (!out.open() || !err.open()) {
    return Error{Code::io, fmt::format("a pipe could not be made: {}", std::strerror(errno))};
  }
  const Stopwatch watch;
  pid_t pid = 0;
  if (const int error = spawn(command, changed_environment(environment), out, err, pid)) {
    return Error{Code::not_found,
                 fmt::format("{} could not be started: {}", command[0], std::strerror(error))};
  }
  out.close_end(1);
  err.close_end(1);
  read_outputs(out, err, pid);
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  ProcessOutput result;
  result.seconds = watch.seconds();
  result.status = WIFEXITED(status) ? WEXITSTATUS(status) : signalled + WTERMSIG(status);
  result.out = std::move(out.text);
  result.err = std::move(err.text);
  if (interrupted()) return interruption();
  return result;
}

} // namespace pumice::command
