#ifdef _WIN32

#include "terminal/windows_program.h"

#include <array>

namespace pumice::command {

namespace {

// A word of a command line as programs take it apart: backslashes are doubled before a quote, and only there.
std::string quoted(const std::string& word) {
  std::string result = "\"";
  size_t backslashes = 0;
  for (const char c : word) {
    if (c == '"') result.append(backslashes + 1, '\\');
    backslashes = c == '\\' ? backslashes + 1 : 0;
    result += c;
  }
  return result.append(backslashes, '\\') + '"';
}

} // namespace

bool WindowsPipe::read_to(std::string& text) {
  std::array<char, 65536> block;
  DWORD bytes = 0;
  if (!is_open(0)) return false;
  const bool alive = PeekNamedPipe(ends[0], nullptr, 0, nullptr, &bytes, nullptr);
  if (alive && bytes == 0) return false;
  if (alive && ReadFile(ends[0], block.data(), static_cast<DWORD>(block.size()), &bytes, nullptr))
    text.append(block.data(), bytes);
  else
    close_end(0);
  return true;
}

HANDLE handed_on(HANDLE handle) {
  SetHandleInformation(handle, HANDLE_FLAG_INHERIT, HANDLE_FLAG_INHERIT);
  return handle;
}

HANDLE start_program(const std::vector<std::string>& words, std::string* variables, HANDLE in, HANDLE out,
                     HANDLE err) {
  std::string line;
  for (const std::string& word : words) line += (line.empty() ? "" : " ") + quoted(word);
  STARTUPINFOA streams = {};
  streams.cb = sizeof streams;
  streams.dwFlags = STARTF_USESTDHANDLES;
  streams.hStdInput = handed_on(in);
  streams.hStdOutput = handed_on(out);
  streams.hStdError = handed_on(err);
  PROCESS_INFORMATION started = {};
  if (!CreateProcessA(nullptr, line.data(), nullptr, nullptr, TRUE, 0,
                      variables ? variables->data() : nullptr, nullptr, &streams, &started))
    return nullptr;
  CloseHandle(started.hThread);
  return started.hProcess;
}

DWORD end_of_program(HANDLE& process) {
  DWORD status = 0;
  WaitForSingleObject(process, INFINITE);
  GetExitCodeProcess(process, &status);
  CloseHandle(process);
  process = nullptr;
  return status;
}

} // namespace pumice::command

#endif
