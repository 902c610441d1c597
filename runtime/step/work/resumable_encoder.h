#pragma once

#include <memory>

#include "step/encoder.h"
#include "step/work/resumable_work.h"

namespace pumice {

// An encoder without a decoder, for use inside an application: it runs its inputs in slices of time or all at
// once, and another thread can cancel it. Used by one thread at a time, except cancel().
class ResumableEncoder {
public:
  // `prepared`: all kernels are compiled now, and not when they first run.
  static Result<std::unique_ptr<ResumableEncoder>> create(std::shared_ptr<const Model> model,
                                                          EncoderOptions options, bool prepared = true);
  ~ResumableEncoder();

  // Runs inputs in one step and waits for it.
  Status run(std::span<const EncoderInput> inputs);

  // The same in slices. begin() takes the inputs. advance() then submits a slice that is expected to take at
  // most `budget` seconds; record() records it into the application's command buffer instead.
  Status begin(std::span<const EncoderInput> inputs);
  Result<SliceResult> advance(double budget, const SubmitSync& sync = {});
  Result<SliceResult> record(VkCommandBuffer into, double budget);

  // Forgets slices in command buffers that will not be submitted. The inputs are then run from the beginning.
  Status discard();

  // Ends what is being run, which is then forgotten. `not_ready` while a recorded slice has not finished.
  Status stop();

  // The values of the output tensor for all inputs that were run, one input after the other.
  Result<std::vector<float>> read();

  // From any thread: stops the inputs that are being run. The call that runs them returns `cancelled`.
  void cancel() { work_.cancel(); }

  // Makes everything again if an error has left it unusable. Call it before encoder().
  Status ready();
  Encoder& encoder() { return *encoder_; }
  const std::string& output() const { return options_.readable[0]; }
  uint32_t columns() const { return columns_; }

private:
  ResumableEncoder(std::shared_ptr<const Model> model, EncoderOptions options, bool prepared)
      : model_(std::move(model)), options_(std::move(options)), prepared_(prepared) {}
  Status make();
  Status encode_again();
  Status check_cancelled();
  Result<SliceResult> slice(VkCommandBuffer into, double budget, const SubmitSync& sync);
  template <class T>
  T failed(T result);

  enum class State { none, running, done };

  std::shared_ptr<const Model> model_;
  EncoderOptions options_;
  bool prepared_; // kernels are compiled before they run
  ResumableWork work_;
  std::unique_ptr<Encoder> encoder_;
  uint32_t columns_ = 0;
  State state_ = State::none;
  std::vector<EncoderInput> inputs_; // the inputs of the current or last run
};

} // namespace pumice
