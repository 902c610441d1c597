#pragma once

#include <atomic>
#include <functional>
#include <string>

#include "base/result.h"

// Ctrl-C, and the other signals that ask a program to end: SIGTERM, and SIGHUP of a terminal that is closed.
// The first one asks all work to stop, and a command that has not ended within a second is ended then; the
// second one ends it at once. New files that are not complete are removed in each case, and also before
// SIGQUIT (Ctrl-\) ends the command.
namespace pumice::command {

// From now on, these signals do this. One that the parent process ignores, such as Ctrl-C for a shell's
// background job or SIGHUP under nohup, stays ignored.
void watch_interrupts();

// At the end of a run: no work was asked to stop, and there are no last words.
void forget_interrupts();

// Asks all work to stop, as Ctrl-C does.
void interrupt();
// The same, however long it takes: nobody waits for the end.
void stop_work();
bool interrupted();
// For DeviceContext::interrupt.
const std::atomic<bool>& interrupt_flag();
// The error Code::cancelled, for a loop that ends because of interrupted().
Error interruption();
// What the command prints on standard output if Ctrl-C or an error ends it from now on: what it has done so
// far. It takes the place of the one before; an empty function prints nothing. It may be called on another
// thread, while work waits for a slow device, so that it must own all that it reads.
void set_last_words(std::function<std::string()> text);
// Prints them, when work has noticed Ctrl-C or failed.
void print_last_words();

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

// While an object lives, the first Ctrl-C asks the work to stop, however long that takes, and does not end
// the command: the destructor forgets it. The second one ends the command at once, which is the
// way out of work that does not stop. The other signals end the command as ever. For the answers of a
// conversation, one after the other.
class StoppableWork {
public:
  StoppableWork();
  ~StoppableWork();
  StoppableWork(const StoppableWork&) = delete;
  StoppableWork& operator=(const StoppableWork&) = delete;

  bool stopped() const; // by Ctrl-C
  void forget();        // a Ctrl-C that came so far
};

// Reading from a terminal, which the first Ctrl-C ends.
class StoppableReading : public StoppableWork {
public:
  StoppableReading();
  ~StoppableReading();
};

} // namespace pumice::command
