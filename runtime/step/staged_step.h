#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "recording/completion.h"
#include "step/slicer.h"
#include "step/upstream_steps.h"

namespace pumice {

// A step in slices, on its way through the stages before the last one. It goes on to the next stage when the
// last slice on the one before has finished.
class StagedStep {
public:
  // `composed`: by the host, as LastStage::begin() has it. The stages are UpstreamSteps::runners().
  StagedStep(std::vector<std::shared_ptr<Runner>> stages, StepRows rows, bool composed);

  // Puts as much of it as fits into the current slice. True once it has been through all stages. Does not
  // wait.
  Result<bool> fill(Slice& slice);
  // Drops the dispatches that are in no slice yet.
  void close();
  double largest_dispatch(const Slicer& slicer) const;

  const StepRows& rows() const { return rows_; }
  bool composed() const { return composed_; }
  std::span<const std::byte> received() const { return bytes_; } // by the last stage, at the end

private:
  Status open();
  Status close_and_read();

  std::vector<std::shared_ptr<Runner>> stages_;
  StepRows rows_;
  bool composed_ = false;
  std::vector<std::byte> bytes_; // that the stage receives
  size_t stage_ = 0;
  bool open_ = false;              // there
  std::optional<Completion> done_; // there, once all of it is in slices
};

} // namespace pumice
