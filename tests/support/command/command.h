#pragma once

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

// In this process, on a device that runs with the same --device, --cache and --memory-limit share, with its
// kernels and what was measured of it; --devices, --validate and --vulkan-loader open new ones. Without
// --cache, --no-tune and --kernel-variant, steps of all sizes take the same kernels, also on a GPU. With
// `environment`, variables to set as "NAME=value", as pumice_process() does. Without `input`, standard input
// is /dev/null.
CommandResult pumice_command(const std::vector<std::string>& arguments, const std::string* input = nullptr,
                             const std::vector<std::string>& environment = {});
inline CommandResult pumice_command(const std::vector<std::string>& arguments, const std::string& input) {
  return pumice_command(arguments, &input);
}

// As a process of its own: for tests of what a process is (its start, its end, its memory and its
// environment).
CommandResult pumice_process(const std::vector<std::string>& arguments, const std::string* input = nullptr,
                             const std::vector<std::string>& environment = {});

// An argument for the shell, after a space.
std::string quoted_argument(const std::string& text);

// Whether the command failed with a message that has all these parts; else the first thing that is wrong.
std::string fails_saying(const CommandResult& result, const std::vector<std::string>& parts);
