#pragma once

#include <span>
#include <string>

namespace pumice::command {

// What main() does: runs the command with a process's own streams and signals, or is one of the children that
// the command starts of its own program. Returns the exit status.
int run_program(std::span<const std::string> arguments);

} // namespace pumice::command
