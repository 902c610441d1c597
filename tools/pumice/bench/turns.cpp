#include "bench/turns.h"

#include <cerrno>
#include <cstdio>
#include <cstdlib>

#include <fmt/format.h>

#ifdef _WIN32
#include <fcntl.h>
#include <io.h>
#endif

#include "terminal/descriptor.h"
#include "terminal/terminal.h"

namespace pumice::command {

namespace {

struct TurnFiles {
  int read = -1, write = -1;
};

TurnFiles read_turn_files() {
  TurnFiles files;
  const char* text = std::getenv(turns_variable);
#ifdef _WIN32
  // Windows hands on handles, not numbers of files.
  long long read = 0, write = 0;
  if (!text || std::sscanf(text, "%lld,%lld", &read, &write) != 2) return {};
  files = {_open_osfhandle(read, _O_RDONLY), _open_osfhandle(write, 0)};
#else
  if (!text || std::sscanf(text, "%d,%d", &files.read, &files.write) != 2) return {};
#endif
  return files;
}

} // namespace

Status wait_for_turn() {
  static const TurnFiles files = read_turn_files();
  if (files.read < 0) return {};
  constexpr int patience = 100; // milliseconds between two looks for Ctrl-C
  char byte = 0;
  ptrdiff_t count = write_some(files.write, &byte, 1);
  while (count == 1) {
    const bool ready = wait_to_read(files.read, patience);
    if (interrupted()) return interruption();
    if (!ready) continue;
    count = read_some(files.read, &byte, 1);
    if (count == 1) return {};
    if (count < 0 && errno == EINTR) count = 1;
  }
  return Error{Code::io, fmt::format("{}: nobody gives turns any more", turns_variable)};
}

} // namespace pumice::command
