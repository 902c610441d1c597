#pragma once

#include <deque>
#include <memory>
#include <optional>

#include "base/progress.h"
#include "step/batch.h"
#include "step/work/resumable_work.h"

namespace pumice {

// A batch for use inside an application: it runs its steps in slices of time, and another thread can cancel
// it. Used by one thread at a time, except cancel().
class ResumableBatch {
public:
  // `progress` counts kernels that are compiled, and may stop that.
  static Result<std::unique_ptr<ResumableBatch>>
  create(std::shared_ptr<const Model> model, SessionOptions options, const Progress& progress = {});
  ~ResumableBatch();

  // Adds a sequence, which runs from the next step on that is not under way yet. Returns its id.
  Result<uint32_t> add(SequenceRequest request);
  // Ends a sequence. What the steps under way sample for it is thrown away. Does not wait.
  void drop(uint32_t id);
  // Whether there are sequences that have not ended. After `cancelled`, and after an error of the device,
  // there are none.
  bool active() const { return batch_ && !work_.broken() && batch_->sequences() > 0; }

  // Submits a slice that is expected to take at most `budget` seconds.
  Result<SliceResult> advance(double budget, const SubmitSync& sync = {});
  // The same, recorded into the application's command buffer.
  Result<SliceResult> record(VkCommandBuffer into, double budget);
  // Forgets slices in command buffers that will not be submitted, and waits for those that were submitted.
  // Steps that were not finished start again.
  Status discard();
  // Submits slices until the next step has finished. Does nothing without sequences.
  Status step();
  // The next token that was sampled and was not taken yet.
  std::optional<BatchToken> take();
  // From any thread: ends all sequences. The call that runs them, or the next one, returns `cancelled`.
  void cancel() { work_.cancel(); }

  const SessionSize& size() const { return batch_->size(); } // not after an error of the device

private:
  ResumableBatch(std::shared_ptr<const Model> model, SessionOptions options)
      : model_(std::move(model)), options_(options) {}
  Status make(const Progress& progress = {});
  Status ready();
  Status check_cancelled();
  Result<bool> collect();
  Status collect_all();
  Status use_slices(bool wanted);
  Status restart();
  Status run_step();
  Status run_whole_step();
  Result<SliceResult> slice(VkCommandBuffer into, double budget, const SubmitSync& sync);

  std::shared_ptr<const Model> model_;
  SessionOptions options_;
  ResumableWork work_;
  std::unique_ptr<Batch> batch_;
  std::deque<BatchToken> received_; // and not taken
  bool whole_ = false;              // with stages: the last steps were whole ones
  bool recorded_ = false;           // there may be slices in command buffers of the application
};

} // namespace pumice
