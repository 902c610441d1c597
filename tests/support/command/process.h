#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

// What this process holds, as Linux has it under /proc.
struct ProcessUse {
  int64_t anonymous_kib = 0; // memory that is not files'
  size_t files = 0;
  size_t threads = 0;

  static ProcessUse now() {
    ProcessUse use;
    std::ifstream status("/proc/self/status");
    for (std::string line; std::getline(status, line);) {
      if (line.starts_with("RssAnon:")) use.anonymous_kib = std::stoll(line.substr(8));
    }
    use.files = count("/proc/self/fd");
    use.threads = count("/proc/self/task");
    return use;
  }

private:
  static size_t count(const char* folder) {
    return static_cast<size_t>(std::distance(std::filesystem::directory_iterator(folder), {}));
  }
};
