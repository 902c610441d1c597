#pragma once

#include <memory>
#include <string>

#include "base/result.h"

// This program again, as a child that does what may crash or never end: drivers compile kernels in the
// process that asks for them. Parent and child exchange lines of text.
namespace pumice::command {

class ChildProcess {
public:
  // `argument` is its only one, which main() knows. Error unsupported if the system starts no such child.
  static Result<ChildProcess> start(const std::string& argument);
  ChildProcess(ChildProcess&&) noexcept;
  ChildProcess& operator=(ChildProcess&&) = delete;
  ~ChildProcess(); // ends it

  // Nothing happens if the child has ended.
  void say(const std::string& line);

  enum class Heard { line, silence, interrupt, end };
  // Waits for a line; for so many seconds, for Ctrl-C, or for the child's end.
  Heard listen(std::string& line, double seconds);

  // Ends it: asks it to end, and does not wait long for that.
  void kill();
  // How it ended. Waits for that.
  struct End {
    int signal = 0; // 0: it ended by itself
    int status = 0;

    // Whether it ended by its own fault and not because somebody asked it to. SIGKILL is no fault: it comes
    // from a person, or from a system that is short of memory.
    bool crashed() const;
    std::string text() const; // "SIGSEGV", "exit status 1"
  };
  End end();

private:
  struct Running;
  explicit ChildProcess(std::unique_ptr<Running> running);
  std::unique_ptr<Running> running_;
};

// The child's side. It ends without a trace when its parent ends, however that happens; Ctrl-C is its
// parent's. Created once, before anything else.
class ParentProcess {
public:
  ParentProcess();
  ParentProcess(const ParentProcess&) = delete;
  ParentProcess& operator=(const ParentProcess&) = delete;

  // The parent's first line; empty if it has ended. Only the first one is heard.
  const std::string& request() const { return request_; }
  void say(const std::string& line) const;

private:
  int out_ = -1;
  std::string request_;
};

} // namespace pumice::command
