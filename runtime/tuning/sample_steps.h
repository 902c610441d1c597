#pragma once

#include <memory>
#include <vector>

#include "step/runner.h"
#include "tuning/device_work.h"

namespace pumice {

// Steps as real ones are, for measuring: of a decoder in the middle of its context, whose caches are full of
// plausible numbers, or of an encoder that reads one input.
class SampleSteps {
public:
  // With several sequences, a step has one token of each. `work` must outlive the result.
  static Result<SampleSteps> create(std::shared_ptr<const Model> model, ModelPart part, SessionSize size,
                                    DeviceWork& work);

  Runner& runner() { return *runner_; }
  // The sizes that the runner has plans for, smallest first.
  std::vector<uint32_t> sizes() const;
  // Whether a step can have so many tokens.
  bool fits(uint32_t tokens) const;
  // Writes the rows and inputs of a step to the device.
  Status write(uint32_t tokens);
  // How many rows of such a step are outputs.
  uint32_t outputs(uint32_t tokens) const;

private:
  SampleSteps(std::unique_ptr<Runner> runner, ModelPart part, DeviceWork& work)
      : runner_(std::move(runner)), part_(part), work_(&work) {}
  Status write_decoder(uint32_t tokens);
  Status write_encoder(uint32_t tokens);
  const ModelShape& shape() const { return runner_->model().shape(); }
  bool several() const { return part_ == ModelPart::decoder && runner_->size().sequences > 1; }

  std::unique_ptr<Runner> runner_;
  ModelPart part_;
  DeviceWork* work_;
};

} // namespace pumice
