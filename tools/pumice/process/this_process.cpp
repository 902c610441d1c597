#include "process/this_process.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>

#ifdef _WIN32
#include <windows.h>
#else
#include <ctime>

#include <unistd.h>
#endif
#ifdef __APPLE__
#include <mach-o/dyld.h>
#endif

namespace pumice::command {

namespace {

#ifdef _WIN32

std::optional<double> age() {
  FILETIME started, ended, kernel, user, now;
  if (!GetProcessTimes(GetCurrentProcess(), &started, &ended, &kernel, &user)) return std::nullopt;
  GetSystemTimeAsFileTime(&now);
  const auto seconds = [](const FILETIME& time) { // they count units of 100 ns
    return (static_cast<double>(time.dwHighDateTime) * 4294967296.0 + time.dwLowDateTime) * 1e-7;
  };
  return seconds(now) - seconds(started);
}

#elif defined(__linux__)

std::optional<double> age() {
  std::ifstream file("/proc/self/stat");
  std::string text((std::istreambuf_iterator<char>(file)), {});
  // The second field is a name in parentheses, which may contain spaces. The 22nd field is the start in
  // ticks.
  const size_t name_end = text.rfind(')');
  timespec now = {};
  if (name_end == std::string::npos || clock_gettime(CLOCK_BOOTTIME, &now) != 0) return std::nullopt;
  const char* at = text.c_str() + name_end + 1;
  for (int field = 2; field < 21; ++field) at = std::strchr(at + 1, ' ');
  const double start = std::strtod(at, nullptr) / static_cast<double>(sysconf(_SC_CLK_TCK));
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9 - start;
}

#else

std::optional<double> age() {
  return std::nullopt;
}

#endif

std::string own_program() {
#ifdef _WIN32
  std::array<char, 32768> path; // the longest that there is
  const DWORD length = GetModuleFileNameA(nullptr, path.data(), static_cast<DWORD>(path.size()));
  return length ? std::string(path.data(), length) : "pumice";
#elif defined(__APPLE__)
  std::array<char, 4096> path;
  uint32_t bytes = path.size();
  return _NSGetExecutablePath(path.data(), &bytes) == 0 ? path.data() : "pumice";
#else
  std::error_code error;
  const std::filesystem::path path = std::filesystem::read_symlink("/proc/self/exe", error);
  return error ? "pumice" : path.string();
#endif
}

std::string program_in_use; // empty: this process's own

} // namespace

std::string this_program() {
  return program_in_use.empty() ? own_program() : program_in_use;
}

std::string program_to_start() {
#ifdef __linux__
  if (program_in_use.empty()) return "/proc/self/exe";
#endif
  return this_program();
}

void use_program(const std::string& path) {
  program_in_use = path;
}

#ifdef _WIN32

std::string command_line() {
  return GetCommandLineA();
}

#else

std::string command_line() {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  std::string text((std::istreambuf_iterator<char>(file)), {});
  while (text.ends_with('\0')) text.pop_back();
  std::ranges::replace(text, '\0', ' ');
  return text;
}

#endif

double process_age() {
  static const auto first = std::chrono::steady_clock::now();
  const std::chrono::duration<double> since = std::chrono::steady_clock::now() - first;
  return age().value_or(since.count());
}

} // namespace pumice::command
