#pragma once

#include <pty.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "support/files/paths.h"

// What a command that runs at a terminal prints there, standard output and error together. `typed` is what a
// person types; "\x04" is Ctrl-D. `environment` is variables to set, as "NAME=value".
struct TerminalResult {
  int status = -1; // exit status; -1 if a signal ended it
  std::string shown;
};

inline TerminalResult pumice_at_terminal(std::vector<std::string> arguments, const std::string& typed = "",
                                         std::vector<std::string> environment = {},
                                         unsigned short columns = 80) {
  arguments.insert(arguments.begin(), command_path().string());
  std::vector<char*> words;
  for (std::string& each : arguments) words.push_back(each.data());
  words.push_back(nullptr);
  int terminal = -1;
  winsize size = {};
  size.ws_row = 40, size.ws_col = columns;
  const pid_t child = forkpty(&terminal, nullptr, nullptr, &size);
  if (child == 0) {
    setenv("TERM", "xterm", 1);
    unsetenv("NO_COLOR");
    for (std::string& each : environment) putenv(each.data());
    execv(words[0], words.data());
    _exit(127);
  }
  TerminalResult result;
  if (child < 0) return result;
  (void)!write(terminal, typed.data(), typed.size());
  char bytes[4096];
  // Reading fails once the child has closed the terminal.
  for (ssize_t count = 0; (count = read(terminal, bytes, sizeof bytes)) > 0;)
    result.shown.append(bytes, static_cast<size_t>(count));
  int status = 0;
  waitpid(child, &status, 0);
  close(terminal);
  if (WIFEXITED(status)) result.status = WEXITSTATUS(status);
  return result;
}
