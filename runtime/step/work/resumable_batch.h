#pragma once

#include <memory>

#include "step/work/batch_work.h"

namespace pumice {

// A batch for use inside an application: it runs its steps in slices of time.
class ResumableBatch : public BatchWork {
public:
  // `progress` counts kernels that are compiled, and may stop that.
  static Result<std::unique_ptr<ResumableBatch>>
  create(std::shared_ptr<const Model> model, SessionOptions options, const Progress& progress = {});

  // Adds a sequence, which runs from the next step on that is not under way yet. Returns its id.
  Result<uint32_t> add(SequenceRequest request);
  // Ends a sequence. What the steps under way sample for it is thrown away. Does not wait.
  void stop(uint32_t id);
  // Whether there are sequences that have not ended. After `cancelled`, and after an error of the device,
  // there are none.
  bool active() const override { return object_ && !broken() && object_->sequences() > 0; }
  // Submits slices until the next step has finished. Does nothing without sequences.
  Status step();

private:
  ResumableBatch(std::shared_ptr<const Model> model, SessionOptions options)
      : BatchWork(std::move(model), std::move(options), "run whole steps") {}
  Result<bool> end() override;
  Status run_step_in_slices();
  Status run_step_in_stages();
};

} // namespace pumice
