#pragma once

#include <array>
#include <csignal>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/files/paths.h"

inline constexpr std::array ending_signals = {SIGINT, SIGTERM, SIGHUP};

// The `pumice` command as a process that a test can signal, with standard streams of the test's choice.
class CommandProcess {
public:
  // `streams` is called in the new process, before the command begins. It must call system functions only.
  // `launcher`: a program that starts the command, and its own arguments.
  CommandProcess(const std::vector<std::string>& arguments, const std::function<void()>& streams,
                 const std::vector<std::string>& launcher = {}) {
    const std::string command = command_path().string();
    const std::string& program = launcher.empty() ? command : launcher[0];
    std::vector<char*> argv;
    for (const std::string& each : launcher) argv.push_back(const_cast<char*>(each.c_str()));
    argv.push_back(const_cast<char*>(command.c_str()));
    for (const std::string& each : arguments) argv.push_back(const_cast<char*>(each.c_str()));
    argv.push_back(nullptr);
    // An early signal waits until it is the command's own.
    sigset_t signals, before;
    sigemptyset(&signals);
    for (const int each : ending_signals) sigaddset(&signals, each);
    ::sigprocmask(SIG_BLOCK, &signals, &before);
    process_ = ::fork();
    if (process_ != 0) {
      ::sigprocmask(SIG_SETMASK, &before, nullptr);
      return;
    }
    for (const int each : ending_signals) std::signal(each, SIG_DFL); // background jobs ignore some
    ::sigprocmask(SIG_UNBLOCK, &signals, nullptr);
    streams();
    ::execv(program.c_str(), argv.data());
    ::_exit(127);
  }
  CommandProcess(const CommandProcess&) = delete;
  CommandProcess& operator=(const CommandProcess&) = delete;
  ~CommandProcess() {
    if (process_ <= 0) return;
    ::kill(process_, SIGKILL);
    wait();
  }

  // As Ctrl-C does, or with another of the ending signals.
  void interrupt(int signal = SIGINT) const {
    if (process_ > 0) ::kill(process_, signal);
  }
  pid_t id() const { return process_; }
  // Whether it has ended. Does not wait.
  bool ended() const {
    siginfo_t info = {};
    return ::waitid(P_PID, static_cast<id_t>(process_), &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
           info.si_pid != 0;
  }
  // The exit status, or 128 and the signal that ended it.
  int wait() {
    int status = 0;
    while (::waitpid(process_, &status, 0) < 0) {
    }
    process_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }

private:
  pid_t process_ = -1;
};

// Makes a file or a device the standard stream of this number.
inline void redirect(int stream, const char* path, int flags) {
  const int opened = ::open(path, flags, 0600);
  if (opened == stream) return;
  ::dup2(opened, stream);
  ::close(opened);
}
