#include "tools/pumice/bench/turns.h"

#include <cerrno>
#include <cstdio>
#include <cstdlib>

#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include "tools/pumice/terminal.h"

namespace pumice::command {

namespace {

struct TurnFiles {
  int read = -1, write = -1;
};

TurnFiles read_turn_files() {
  TurnFiles files;
  const char* text = std::getenv(turns_variable);
  if (!text || std::sscanf(text, "%d,%d", &files.read, &files.write) != 2) return {};
  return files;
}

} // namespace

Status wait_for_turn() {
  static const TurnFiles files = read_turn_files();
  if (files.read < 0) return {};
  constexpr int patience = 100; // milliseconds between two looks for Ctrl-C
  char byte = 0;
  ssize_t count = write(files.write, &byte, 1);
  while (count == 1) {
    pollfd file{files.read, POLLIN, 0};
    (void)poll(&file, 1, patience);
    if (interrupted()) return interruption();
    if (!file.revents) continue;
    count = read(files.read, &byte, 1);
    if (count == 1) return {};
    if (count < 0 && errno == EINTR) count = 1;
  }
  return Error{Code::io, fmt::format("{}: nobody gives turns any more", turns_variable)};
}

} // namespace pumice::command
