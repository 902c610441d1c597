#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "stage/hop.h"

namespace pumice {

// Processes that were started together and run one model, a stage each. Process 0 has the last stage: it
// reads the input, samples and writes the output. Process r has stage r - 1.
class Processes {
public:
  virtual ~Processes() = default; // says goodbye to the others

  virtual uint32_t rank() const = 0;
  virtual uint32_t size() const = 0;
  virtual std::string host(uint32_t rank) const = 0;
  // A hop to another process, or from it. There is at most one of each between two processes. The hops end
  // before this does.
  virtual Result<std::unique_ptr<Hop>> hop_to(uint32_t rank) = 0;
  virtual Result<std::unique_ptr<Hop>> hop_from(uint32_t rank) = 0;
  // Ends what waits for this process, which goes away before its time.
  virtual void leave() = 0;
  // Says goodbye, and waits until all others have, however long they work.
  virtual Status wait_for_all() = 0;

  virtual std::string name(uint32_t rank) const {
    return "rank " + std::to_string(rank) + " on " + host(rank);
  }
};

// What a plug-in with Processes exports, under the name `open_processes_symbol`. `version`: of the program,
// which the plug-in must have too. `timeout`: seconds without a sign of life after which another process
// counts as gone. Returns null where it cannot be opened, with the reason in `why`.
using OpenProcesses = Processes* (*)(const char* version, double timeout, std::string* why);
inline constexpr const char* open_processes_symbol = "pumice_open_processes";

} // namespace pumice
