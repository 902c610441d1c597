#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "support/files/paths.h"
#include "support/files/temporary_folder.h"

// Runs the `pumice` command as a user would.
struct CommandResult {
  int status = -1; // exit status; -1 if a signal ended it
  std::string out;
  std::string err;
};

// An argument for the shell, after a space.
inline std::string quoted_argument(const std::string& text) {
  std::string result = " '";
  for (char c : text) {
    if (c == '\'') result += "'\\'";
    result += c;
  }
  result += "'";
  return result;
}

// `environment` is variables to set, as "NAME=value". Without `input`, standard input is /dev/null.
inline CommandResult pumice_command(const std::vector<std::string>& arguments,
                                    const std::string* input = nullptr,
                                    const std::vector<std::string>& environment = {}) {
  const TemporaryFolder folder;
  const auto path = [&](const char* name) { return (folder.path() / name).string(); };
  std::string line = "env";
  for (const std::string& each : environment) line += quoted_argument(each);
  line += quoted_argument(command_path().string());
  for (const std::string& each : arguments) line += quoted_argument(each);
  if (input) folder.write("in", *input);
  line += " <";
  line += input ? quoted_argument(path("in")) : "/dev/null";
  line += " >";
  line += quoted_argument(path("out"));
  line += " 2>";
  line += quoted_argument(path("err"));
  const int status = std::system(line.c_str());
  const auto contents = [&](const char* name) {
    std::stringstream text;
    text << std::ifstream(folder.path() / name, std::ios::binary).rdbuf();
    return text.str();
  };
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, contents("out"), contents("err")};
}
inline CommandResult pumice_command(const std::vector<std::string>& arguments, const std::string& input) {
  return pumice_command(arguments, &input);
}

// Whether the command failed with a message that has all these parts; else the first thing that is wrong.
inline std::string fails_saying(const CommandResult& result, const std::vector<std::string>& parts) {
  if (result.status != 1) return "exit status " + std::to_string(result.status) + ": " + result.err;
  if (!result.out.empty()) return "standard output has: " + result.out;
  if (result.err.find("pumice: ") == std::string::npos) return "no 'pumice: ' in: " + result.err;
  for (const std::string& part : parts) {
    if (result.err.find(part) == std::string::npos) return "no '" + part + "' in: " + result.err;
  }
  return "";
}
