#pragma once

#include <span>
#include <string>

#include "loading/open_device.h"
#include "terminal/terminal.h"

// The `pumice` command as a function: for main(), and for a program that runs many command lines.
namespace pumice::command {

// What a run meets beside its arguments.
struct Surroundings {
  Streams streams = {};
  DeviceSource devices = {}; // empty: new ones
  std::string program = {};  // that it starts for what may crash; empty: this process's own
};

// Runs a command line, without the program's name, and returns its exit status. One at a time in a process.
// Signals are the caller's: see watch_interrupts().
int run(std::span<const std::string> arguments, const Surroundings& surroundings = {});

} // namespace pumice::command
