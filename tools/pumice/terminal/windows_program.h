#pragma once

#ifdef _WIN32

#include <string>
#include <vector>

#include <windows.h>

// Windows' way to start programs and to listen to them.
namespace pumice::command {

struct WindowsPipe {
  HANDLE ends[2] = {}; // where it is read, where it is written

  WindowsPipe() = default;
  ~WindowsPipe() {
    close_end(0);
    close_end(1);
  }
  WindowsPipe(const WindowsPipe&) = delete;
  WindowsPipe& operator=(const WindowsPipe&) = delete;

  bool open() { return CreatePipe(&ends[0], &ends[1], nullptr, 0); }
  bool is_open(int end) const { return ends[end] != nullptr; }
  void close_end(int end) {
    if (ends[end]) CloseHandle(ends[end]);
    ends[end] = nullptr;
  }
  // Appends what is there, if anything; returns whether there was, or the pipe has ended and is closed now.
  bool read_to(std::string& text);
};

// Between two looks at pipes, in milliseconds: Windows has no call that waits for them.
inline constexpr DWORD pipe_pause = 2;

// A handle that a program which is started next may take over.
HANDLE handed_on(HANDLE handle);

// Starts a program: `words[0]` is a path, or a name that is looked for in PATH. `variables`: each ends with a
// zero, and the list with another one; nullptr: this program's own. Takes over handles that are handed_on().
// The first three are its standard streams. Null if that fails; GetLastError() says why.
HANDLE start_program(const std::vector<std::string>& words, std::string* variables, HANDLE in, HANDLE out,
                     HANDLE err);

// Waits for a program's end, closes its handle, and returns its exit code.
DWORD end_of_program(HANDLE& process);

} // namespace pumice::command

#endif
