#pragma once

#include <memory>

#include "step/encoder.h"
#include "step/resumable_work.h"

namespace pumice {

// An encoder without a decoder as a guest in somebody else's program: runs its inputs in slices of time or
// all at once, and can be stopped from another thread. Used by one thread at a time, but for cancel().
class ResumableEncoder {
public:
  static Result<std::unique_ptr<ResumableEncoder>> create(std::shared_ptr<const Model> model,
                                                          EncoderOptions options);
  ~ResumableEncoder();

  // Runs inputs to the end.
  Status run(std::span<const EncoderInput> inputs);

  // The same in slices: takes the inputs, and then runs as much as is expected to take so many seconds,
  // submitted or recorded into the application's command buffer.
  Status begin(std::span<const EncoderInput> inputs);
  Result<SliceResult> advance(double budget, const SubmitSync& sync = {});
  Result<SliceResult> record(VkCommandBuffer into, double budget);

  // Forgets slices in command buffers that will not be submitted: the inputs are begun anew.
  Status discard();

  // Of the inputs that were run: what they gave of the kept tensor, one after the other.
  Result<std::vector<float>> read();

  // From any thread: the inputs that are being run are given up, and the call that does so returns
  // `cancelled`.
  void cancel() { work_.cancel(); }

  // After an error everything is made anew, which may fail as well: before encoder() is used.
  Status ready();
  Encoder& encoder() { return *encoder_; }
  const std::string& output() const { return options_.kept[0]; }
  uint32_t columns() const { return columns_; }

private:
  ResumableEncoder(std::shared_ptr<const Model> model, EncoderOptions options)
      : model_(std::move(model)), options_(std::move(options)) {}
  Status make();
  Status encode_again();
  Status check_cancelled();
  Result<SliceResult> slice(VkCommandBuffer into, double budget, const SubmitSync& sync);
  template <class T>
  T failed(T result);

  enum class State { none, running, done };

  std::shared_ptr<const Model> model_;
  EncoderOptions options_;
  ResumableWork work_;
  std::unique_ptr<Encoder> encoder_;
  uint32_t columns_ = 0;
  State state_ = State::none;
  std::vector<EncoderInput> inputs_; // that are being run, or were
};

} // namespace pumice
