#pragma once

#include <atomic>

#include "base/result.h"

// Ctrl-C, and the other signals that ask a program to end: SIGTERM, and SIGHUP of a terminal that is closed.
// The first one asks all work to stop, and a command that has not ended within a second is ended then; the
// second one ends it at once. New files that are not complete are removed in each case, and also before
// SIGQUIT (Ctrl-\) ends the command.
namespace pumice::command {

// From now on, these signals do this. One that the parent process ignores, such as Ctrl-C for a shell's
// background job or SIGHUP under nohup, stays ignored.
void watch_interrupts();

// Asks all work to stop, as Ctrl-C does.
void interrupt();
bool interrupted();
// For DeviceContext::interrupt.
const std::atomic<bool>& interrupt_flag();
// The error Code::cancelled, for a loop that ends because of interrupted().
Error interruption();
// The exit status that shells report for a program that the signal ended: 130 after Ctrl-C.
int interrupted_status();

// While an object lives, the first Ctrl-C ends the command only when it has come to its end itself, however
// long that takes: for work whose result is saved.
class SavedWork {
public:
  SavedWork();
  ~SavedWork();
  SavedWork(const SavedWork&) = delete;
  SavedWork& operator=(const SavedWork&) = delete;
};

} // namespace pumice::command
