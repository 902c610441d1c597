#pragma once

#include <pty.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <string>
#include <vector>

#include <poll.h>

#include "support/files/paths.h"

// The command at a terminal, with a person who types when something is shown: wait_for() first, then type().
class TypedTerminal {
public:
  explicit TypedTerminal(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), command_path().string());
    std::vector<char*> words;
    for (std::string& each : arguments) words.push_back(each.data());
    words.push_back(nullptr);
    winsize size = {};
    size.ws_row = 40, size.ws_col = 200; // no line is broken
    process_ = forkpty(&terminal_, nullptr, nullptr, &size);
    if (process_ != 0) return;
    for (const int each : {SIGINT, SIGTERM, SIGHUP}) std::signal(each, SIG_DFL);
    setenv("TERM", "xterm", 1);
    setenv("HOME", "/nonexistent", 1); // no settings of the person who runs the tests
    execv(words[0], words.data());
    _exit(127);
  }
  TypedTerminal(const TypedTerminal&) = delete;
  TypedTerminal& operator=(const TypedTerminal&) = delete;
  ~TypedTerminal() {
    if (process_ > 0) {
      ::kill(process_, SIGKILL);
      (void)end();
    }
    close(terminal_);
  }

  // Reads until this is shown, behind what was waited for before. False if the command ends without it, or
  // after minutes: a device may be slow.
  bool wait_for(const std::string& text) {
    const auto start = std::chrono::steady_clock::now();
    for (;;) {
      const size_t at = shown_.find(text, seen_);
      if (at != std::string::npos) {
        seen_ = at + text.size();
        return true;
      }
      if (std::chrono::steady_clock::now() - start > std::chrono::minutes(3) || !read_some()) return false;
    }
  }
  void type(const std::string& text) { (void)!write(terminal_, text.data(), text.size()); }
  // The exit status, once the command has ended; -1 if a signal ended it, or it says nothing for minutes.
  int end() {
    while (read_some()) {
    }
    if (silent_) ::kill(process_, SIGKILL);
    int status = 0;
    waitpid(process_, &status, 0);
    process_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
  const std::string& shown() const { return shown_; }

private:
  // False if there will be no more.
  bool read_some() {
    pollfd waiting = {terminal_, POLLIN, 0};
    silent_ = poll(&waiting, 1, 180'000) <= 0;
    if (silent_) return false;
    char bytes[4096];
    const ssize_t count = read(terminal_, bytes, sizeof bytes);
    if (count <= 0) return false;
    shown_.append(bytes, static_cast<size_t>(count));
    return true;
  }

  int terminal_ = -1;
  pid_t process_ = -1;
  std::string shown_;
  size_t seen_ = 0;
  bool silent_ = false; // for minutes
};
