#pragma once

#include "base/result.h"

// Two processes of `pumice bench` whose runs alternate. Each asks for its turn before a run, and waits. So
// what disturbs the machine for longer than a run disturbs both alike.
namespace pumice::command {

// The environment variable that tells a process to wait for its turns: "READ,WRITE", two open files (on
// Windows, their handles). It
// writes a byte to WRITE when it asks, and reads one from READ when the turn is its own.
inline constexpr const char* turns_variable = "PUMICE_BENCH_TURNS";

// Returns at once in a process that need not wait. An error after Ctrl-C, or if nobody gives turns any more.
Status wait_for_turn();

} // namespace pumice::command
