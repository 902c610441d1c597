#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "model/session_memory.h"

namespace pumice {

// What the runners of all stages of a session are made from.
struct StageSteps {
  SessionSize size;
  bool all_outputs = false;
  std::vector<std::string> readable; // see RunnerOptions
  uint64_t received_bytes = 0;       // of a whole chunk, by the last stage
};

// What a step needs on all stages: its rows, as the beginning of the step block (shaders/common/step.h) and
// as long as the rows ask for: the header, the rows and their details.
struct StepRows {
  uint32_t tokens = 0;
  std::vector<uint32_t> words; // (1 + 2 * tokens) quads
};

// The steps of one session on the stages before the last one. Used by one thread at a time.
class UpstreamSteps {
public:
  virtual ~UpstreamSteps() = default;
  // Begins a step, whose rows go through all stages. Steps arrive in the order in which they were begun. May
  // call what receives() was given, for earlier ones.
  virtual Status send(const StepRows& rows) = 0;
  // Waits for the next step to arrive, of this session or another one of the same thread.
  virtual Status wait() = 0;
  // Makes the stages compile all kernels. They do it while the last one does the same.
  virtual Status prepare_all() = 0;
};

// The stages before a model's own, which has the end of the model. They compute a step and hand on what the
// last one receives.
class Upstream {
public:
  // Takes what has arrived of a step: the tensors of Plan::received one after the other, each with the rows
  // of the step.
  using Receive = std::function<Status(uint32_t tokens, std::span<const std::byte> bytes)>;

  virtual ~Upstream() = default;
  virtual uint32_t stages() const = 0; // the last one is not counted
  // "layers 0 to 19 on llvmpipe": a line for each.
  virtual std::vector<std::string> describe() const = 0;
  virtual Result<std::unique_ptr<UpstreamSteps>> begin(const StageSteps& steps, Receive receive) = 0;
};

} // namespace pumice
