#pragma once

#include <deque>
#include <functional>
#include <memory>

#include "recording/completion.h"
#include "step/upstream_steps.h"

namespace pumice {

// The steps of a runner whose model is the last of several stages. A step goes through the stages before it
// first; once it has arrived, it is computed here. Steps are computed in the order in which they were begun.
// Used by one thread at a time.
class LastStage {
public:
  // Submits a step here. `results`: of the stage before.
  using Compute =
      std::function<Result<Completion>(const StepRows& rows, bool composed, const StageResults& results)>;

  static Result<std::unique_ptr<LastStage>> create(StepUpstream& upstream, const StageSteps& steps,
                                                   Compute compute);
  // `composed`: by the host; otherwise the device has written these rows, and they are in the step block.
  Result<Completion> begin(StepRows rows, bool composed);
  Status prepare_all() { return upstream_->prepare_all(); }
  Status write_block(std::span<const uint32_t> pieces) { return upstream_->write_block(pieces); }
  UpstreamSteps& upstream() { return *upstream_; }

private:
  struct Step;

  explicit LastStage(Compute compute) : compute_(std::move(compute)) {}
  Status received(uint32_t tokens, const StageResults& results);
  Status wait_for_one();

  Compute compute_;
  std::deque<std::shared_ptr<Step>> waiting_; // that have not arrived, in order
  std::unique_ptr<UpstreamSteps> upstream_;
};

} // namespace pumice
