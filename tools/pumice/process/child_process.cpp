#ifndef _WIN32 // child_process_windows.cpp is the other one

#include "process/child_process.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <fstream>
#include <thread>

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "io/output_file.h"
#include "process/this_process.h"
#include "terminal/terminal.h"

extern char** environ;

namespace pumice::command {

namespace {

bool write_whole(int file, std::string_view text) {
  while (!text.empty()) {
    const ssize_t count = ::write(file, text.data(), text.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    text.remove_prefix(static_cast<size_t>(count));
  }
  return true;
}

} // namespace

struct ChildProcess::Running {
  struct Pipe {
    int ends[2] = {-1, -1}; // where it is read, where it is written

    Pipe() = default;
    ~Pipe() {
      close(0);
      close(1);
    }
    Pipe(const Pipe&) = delete;
    Pipe& operator=(const Pipe&) = delete;

    bool open() {
      if (::pipe(ends) != 0) return false;
      for (const int end : ends) ::fcntl(end, F_SETFD, FD_CLOEXEC);
      return true;
    }
    void close(int end) {
      if (ends[end] >= 0) ::close(ends[end]);
      ends[end] = -1;
    }
  };

  pid_t pid = 0; // 0: it has not started, or its end is known
  Pipe to, from;
  std::string heard; // and not given out yet
  End end;

  ~Running() { stop(); }

  // The child ends itself when it has no parent: it takes its notes away then.
  void stop() {
    constexpr int looks = 20;
    constexpr auto between_looks = std::chrono::milliseconds(10);
    if (pid == 0) return;
    to.close(1);
    for (int i = 0; i < looks && !wait(WNOHANG); ++i) std::this_thread::sleep_for(between_looks);
    if (pid == 0) return;
    ::kill(pid, SIGKILL);
    wait(0);
  }

  // Whether it has ended.
  bool wait(int flags) {
    int status = 0;
    pid_t ended = -1;
    while (ended < 0) {
      ended = ::waitpid(pid, &status, flags);
      if (ended < 0 && errno != EINTR) break;
    }
    if (ended == 0) return false;
    pid = 0;
    end = {WIFSIGNALED(status) ? WTERMSIG(status) : 0, WIFEXITED(status) ? WEXITSTATUS(status) : 0};
    return true;
  }

  // False at the end of what the child says.
  bool read() {
    std::array<char, 65536> block;
    const ssize_t count = ::read(from.ends[0], block.data(), block.size());
    if (count > 0) heard.append(block.data(), static_cast<size_t>(count));
    return count > 0 || (count < 0 && errno == EINTR);
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
  const auto refused = [](int reason) {
    return Error{Code::unsupported,
                 fmt::format("a child process could not be started: {}", std::strerror(reason))};
  };
  if (!running->to.open() || !running->from.open()) return refused(errno);
  std::string name = "pumice", option = argument;
  char* const arguments[] = {name.data(), option.data(), nullptr};
  std::signal(SIGCHLD, SIG_DFL); // whoever inherits that it is ignored never hears how a child ended
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, running->to.ends[0], STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, running->from.ends[1], STDOUT_FILENO);
  const int error =
      ::posix_spawn(&running->pid, program_to_start().c_str(), &actions, nullptr, arguments, environ);
  posix_spawn_file_actions_destroy(&actions);
  if (error) running->pid = 0;
  if (error) return refused(error);
  running->to.close(0);
  running->from.close(1);
  return ChildProcess(std::move(running));
}

void ChildProcess::say(const std::string& line) {
  (void)write_whole(running_->to.ends[1], line + "\n"); // SIGPIPE is off: prepare_standard_streams()
}

ChildProcess::Heard ChildProcess::listen(std::string& line, double seconds) {
  constexpr double between_looks = 0.1; // for Ctrl-C, seconds
  const Stopwatch watch;
  while (!running_->take_line(line)) {
    if (interrupted()) return Heard::interrupt;
    const double left = seconds - watch.seconds();
    if (left <= 0) return Heard::silence;
    pollfd file = {running_->from.ends[0], POLLIN, 0};
    if (::poll(&file, 1, static_cast<int>(std::min(left, between_looks) * 1e3) + 1) <= 0) continue;
    if (!running_->read()) return Heard::end;
  }
  return Heard::line;
}

void ChildProcess::kill() {
  running_->stop();
}

ChildProcess::End ChildProcess::end() {
  if (running_->pid > 0) running_->wait(0);
  return running_->end;
}

bool ChildProcess::End::crashed() const {
  constexpr std::array asked = {SIGKILL, SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGPIPE, SIGALRM, SIGXCPU};
  return signal == 0 ? status != 0 : std::ranges::find(asked, signal) == asked.end();
}

std::string ChildProcess::End::text() const {
  switch (signal) {
  case 0:
    return fmt::format("exit status {}", status);
  case SIGSEGV:
    return "SIGSEGV";
  case SIGABRT:
    return "SIGABRT";
  case SIGBUS:
    return "SIGBUS";
  case SIGILL:
    return "SIGILL";
  case SIGFPE:
    return "SIGFPE";
  case SIGKILL:
    return "SIGKILL";
  case SIGTERM:
    return "SIGTERM";
  default:
    return fmt::format("signal {}", signal);
  }
}

ParentProcess::ParentProcess() {
  for (const int each : {SIGINT, SIGHUP, SIGQUIT}) std::signal(each, SIG_IGN); // the parent ends it
  const rlimit none = {0, 0};
  ::setrlimit(RLIMIT_CORE, &none); // its parent says where it crashed
#ifdef __linux__ // a driver's compiler may want all memory: then this process is the first to end
  std::ofstream("/proc/self/oom_score_adj") << 1000;
#endif
  // What drivers print goes to standard error.
  out_ = ::fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
  ::dup2(STDERR_FILENO, STDOUT_FILENO);
  char letter = 0;
  while (::read(STDIN_FILENO, &letter, 1) == 1 && letter != '\n') request_ += letter;
  std::thread([] {
    char ignored = 0;
    ssize_t count = 1;
    while (count > 0 || (count < 0 && errno == EINTR)) count = ::read(STDIN_FILENO, &ignored, 1);
    remove_unfinished_files();
    ::_exit(1);
  }).detach();
}

void ParentProcess::say(const std::string& line) const {
  (void)write_whole(out_, line + "\n");
}

} // namespace pumice::command

#endif
