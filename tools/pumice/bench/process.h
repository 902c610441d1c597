#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"

// Other programs, started to be measured.
namespace pumice::command {

struct ProcessOutput {
  int status = 0;     // exit status; 128 and the signal's number if a signal ended it, as in shells
  double seconds = 0; // from its start to its end
  std::string out, err;
};

// Whether a shell would find a program: by its path, or in PATH.
bool can_be_started(const std::string& name);

// A program that runs beside this one: `command[0]` is a path, or a name that is looked for in PATH. Standard
// input is empty. `environment`: variables to set or replace. Ctrl-C ends the program as well.
class Process {
public:
  using Environment = std::vector<std::pair<std::string, std::string>>;

  // `turns`: it may ask for turns; see turns.h.
  static Result<Process> start(const std::vector<std::string>& command, Environment environment = {},
                               bool turns = false);
  Process(Process&&) noexcept;
  Process& operator=(Process&&) = delete;
  ~Process(); // ends a program that still runs

  // Waits until the program asks for its next turn (true) or ends (false).
  bool asks_for_turn();
  void give_turn();
  // Waits for the end.
  Result<ProcessOutput> finish();

private:
  struct Running;
  explicit Process(std::unique_ptr<Running> running);
  std::unique_ptr<Running> running_;
};

// Runs a program to its end.
Result<ProcessOutput> run_process(const std::vector<std::string>& command,
                                  Process::Environment environment = {});

} // namespace pumice::command
