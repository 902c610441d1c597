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

  // Saves a text that runs here, or has run, with its keys and values; the others go on. What has been
  // sampled of it is known after wait(), which waits for the slices under way and takes in their tokens:
  // `not_ready` while a recorded one has not finished.
  Status wait();
  Status save(const std::filesystem::path& path, const Conversation& conversation);
  Status save(const StateSink& sink, const Conversation& conversation);
  // Takes in the keys and values of a conversation that was saved, or that a slot of another batch has, so
  // that a text that goes on with it does not compute them again. Nothing is taken in where a text runs in
  // every place. Steps that are under way in slices end first, or start again.
  Result<Conversation> load(MappedFile file);
  Status adopt(const Batch& from, uint32_t slot, const Conversation& conversation);

private:
  ResumableBatch(std::shared_ptr<const Model> model, SessionOptions options)
      : BatchWork(std::move(model), std::move(options), "run whole steps") {}
  Result<bool> end() override;
  Status run_step_in_slices();
  Status run_step_in_stages();
};

} // namespace pumice
