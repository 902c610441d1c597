#pragma once

#include <deque>
#include <optional>

#include "step/batch.h"
#include "step/work/resumable_work.h"

namespace pumice {

// Whether its steps can be divided into time slices. Through stages in other processes they go only whole.
bool has_slices(const Model& model);

// A batch that runs whole steps, some of them ahead of the host, or slices of time; both give the same
// tokens. What a session and a batch of an application have in common.
class BatchWork : public ResumableWork<Batch> {
public:
  // The next token that was sampled and was not taken yet.
  std::optional<BatchToken> take();
  const SessionSize& size() const { return object_->size(); } // not after an error of the device

protected:
  // `instead`: what to do with a model that has no slices, for messages.
  BatchWork(std::shared_ptr<const Model> model, SessionOptions options, const char* instead)
      : ResumableWork(std::move(model), "generating"), options_(options), instead_(instead) {}

  // Takes in a token of a step that has finished.
  virtual void receive(const BatchToken& token) { received_.push_back(token); }
  Status make_object(const Progress& progress) override;
  Status use_slices() override;
  // Steps that are under way in slices end first, or start again.
  Status use_whole_steps();
  // Submits whole steps, and takes in the oldest one.
  Status run_whole_step();
  // Returns what has become of whole steps: cancel() ends the texts, the context's interrupt has no end.
  Status ended(Status status);
  Status collect() override;
  // Takes in the oldest step if it has finished. False: it has not.
  Result<bool> collect_step();
  Status fill(Slice& slice) override { return object_->fill(slice); }
  double largest_dispatch() const override { return object_->runner().largest_dispatch(*slicer_); }
  Status restart() override;
  // Waits for the slices in flight, and takes in what they have sampled.
  Status wait_for_slices();

  SessionOptions options_;
  std::deque<BatchToken> received_; // and not taken
  bool sliced_ = false;             // the last steps were in slices

private:
  const char* instead_;
};

} // namespace pumice
