#pragma once

#include <atomic>

#include "base/result.h"

// Ctrl-C. The first one asks all work to stop, and a command that has not ended within a second is ended
// then; the second one ends it at once. New files that are not complete are removed in each case.
namespace pumice::command {

// From now on, Ctrl-C does this. Where the parent process ignores it, such as for a shell's background job,
// it stays ignored.
void watch_interrupts();

// Asks all work to stop, as Ctrl-C does.
void interrupt();
bool interrupted();
// For DeviceContext::interrupt.
const std::atomic<bool>& interrupt_flag();
// The error Code::cancelled, for a loop that ends because of interrupted().
Error interruption();

// While an object lives, the first Ctrl-C ends the command only when it has come to its end itself, however
// long that takes: for work whose result is saved.
class SavedWork {
public:
  SavedWork();
  ~SavedWork();
  SavedWork(const SavedWork&) = delete;
  SavedWork& operator=(const SavedWork&) = delete;
};

inline constexpr int exit_interrupted = 130; // the status that shells report for a program that Ctrl-C ended

} // namespace pumice::command
