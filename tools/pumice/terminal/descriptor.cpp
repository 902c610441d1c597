#include "terminal/descriptor.h"

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <string_view>

#include <fcntl.h>
#include <sys/stat.h>

#ifdef _WIN32
#include <algorithm>
#include <chrono>

#include <io.h>
#include <windows.h>
#else
#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>
#endif

namespace pumice::command {

#ifdef _WIN32

namespace {

HANDLE handle_of(int file) {
  return reinterpret_cast<HANDLE>(_get_osfhandle(file));
}

void set_console_mode(int file) {
  DWORD mode = 0;
  if (GetConsoleMode(handle_of(file), &mode))
    SetConsoleMode(handle_of(file), mode | ENABLE_VIRTUAL_TERMINAL_PROCESSING);
}

// Whether reading would not wait.
bool can_be_read(int file) {
  const HANDLE handle = handle_of(file);
  DWORD mode = 0, bytes = 0;
  if (GetFileType(handle) == FILE_TYPE_PIPE)
    return !PeekNamedPipe(handle, nullptr, 0, nullptr, &bytes, nullptr) || bytes > 0;
  return !GetConsoleMode(handle, &mode) || WaitForSingleObject(handle, 0) == WAIT_OBJECT_0;
}

} // namespace

void prepare_standard_streams() {
  for (const int stream : {standard_input, standard_output, standard_error}) {
    if (handle_of(stream) == INVALID_HANDLE_VALUE)
      (void)!_open("NUL", stream == standard_error ? _O_WRONLY : _O_RDONLY);
    _setmode(stream, _O_BINARY);
    if (stream != standard_input) set_console_mode(stream);
  }
  SetConsoleCP(CP_UTF8);
  SetConsoleOutputCP(CP_UTF8);
}

bool is_terminal(int file) {
  DWORD mode = 0; // _isatty() takes NUL for a terminal
  return GetConsoleMode(handle_of(file), &mode) != 0;
}

bool moves_cursor(int file) {
  return is_terminal(file);
}

unsigned columns_of(int file) {
  CONSOLE_SCREEN_BUFFER_INFO info = {};
  if (!GetConsoleScreenBufferInfo(handle_of(file), &info)) return 0;
  return static_cast<unsigned>(info.srWindow.Right - info.srWindow.Left + 1);
}

bool has_contents(int file) {
  const DWORD type = GetFileType(handle_of(file));
  return type == FILE_TYPE_DISK || type == FILE_TYPE_PIPE;
}

int open_to_read(const std::string& path) {
  return _open(path.c_str(), _O_RDONLY | _O_BINARY | _O_NOINHERIT);
}

ptrdiff_t read_some(int file, char* bytes, size_t count) {
  return _read(file, bytes, static_cast<unsigned>(count));
}

ptrdiff_t write_some(int file, const char* bytes, size_t count) {
  return _write(file, bytes, static_cast<unsigned>(count));
}

void close_file(int file) {
  _close(file);
}

// Windows has no call that waits for pipes.
bool wait_to_read(int file, int milliseconds) {
  const auto start = std::chrono::steady_clock::now();
  while (!can_be_read(file)) {
    const auto waited = std::chrono::steady_clock::now() - start;
    if (milliseconds >= 0 && waited >= std::chrono::milliseconds(milliseconds)) return false;
    Sleep(1);
  }
  return true;
}

#else

void prepare_standard_streams() {
  // Lowest first: open() takes the lowest number that is free. Writing to what is open for reading fails.
  for (const int stream : {standard_input, standard_output, standard_error}) {
    if (fcntl(stream, F_GETFD) == -1)
      (void)!open("/dev/null", stream == standard_error ? O_WRONLY : O_RDONLY);
  }
  std::signal(SIGPIPE, SIG_IGN); // writing to a pipe whose reader has ended
  std::signal(SIGXFSZ, SIG_IGN); // writing beyond the size that the user may
}

bool is_terminal(int file) {
  return isatty(file) == 1;
}

bool moves_cursor(int file) {
  const char* kind = std::getenv("TERM");
  return kind && *kind && std::string_view(kind) != "dumb" && is_terminal(file);
}

unsigned columns_of(int file) {
  winsize size = {};
  return ioctl(file, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

bool has_contents(int file) {
  struct stat info = {};
  return fstat(file, &info) == 0 && !S_ISCHR(info.st_mode);
}

int open_to_read(const std::string& path) {
  return ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
}

ptrdiff_t read_some(int file, char* bytes, size_t count) {
  return ::read(file, bytes, count);
}

ptrdiff_t write_some(int file, const char* bytes, size_t count) {
  return ::write(file, bytes, count);
}

void close_file(int file) {
  ::close(file);
}

bool wait_to_read(int file, int milliseconds) {
  pollfd input = {file, POLLIN, 0};
  return poll(&input, 1, milliseconds) > 0;
}

#endif

bool shows_styles(int file) {
  const char* none = std::getenv("NO_COLOR"); // https://no-color.org
  return moves_cursor(file) && !(none && *none);
}

} // namespace pumice::command
