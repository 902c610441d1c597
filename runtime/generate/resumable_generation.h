#pragma once

#include "generate/encoder_decoder.h"
#include "step/work/resumable_work.h"

namespace pumice {

// An encoder with a decoder, for use inside an application: it generates the texts of inputs in slices of
// time or all at once, with the same result, and another thread can cancel it. Used by one thread at a time,
// except cancel().
class ResumableGeneration {
public:
  // With `prepared`, the kernels of calls with such options are compiled now, and not when they first run.
  static Result<std::unique_ptr<ResumableGeneration>> create(std::shared_ptr<const Model> model,
                                                             EncoderDecoderOptions options,
                                                             const GenerationOptions* prepared = nullptr);
  ~ResumableGeneration();

  // Ends what is under way, and forgets a cancel() before this. Waits for the slices in flight.
  Status stop();
  // Takes inputs, after stop() or after the texts of other ones, and computes nothing yet. Without an
  // interrupt in the options, cancel() is one.
  Status start(std::vector<EncoderInput> inputs, GenerationOptions options);

  // The same for some of those inputs, whose options kept them (GenerationOptions::keep_inputs): their texts
  // are generated again, with other options and without the encoder.
  Status again(std::span<const size_t> indices, GenerationOptions options);

  // Generates to the end.
  Status run();
  // The same in slices: advance() submits one that is expected to take at most `budget` seconds; record()
  // records it into the application's command buffer instead.
  Result<SliceResult> advance(double budget, const SubmitSync& sync = {});
  Result<SliceResult> record(VkCommandBuffer into, double budget);
  // Forgets slices in command buffers that will not be submitted. The inputs are then run from the beginning.
  Status discard();

  // A list of texts for each input. `not_ready` if they are not complete.
  Result<std::span<const std::vector<Hypothesis>>> texts();
  std::span<const EncoderInput> inputs() const { return inputs_; }

  // From any thread: stops what is under way. The call that runs it returns `cancelled`.
  void cancel() { work_.cancel(); }
  bool cancelled() const { return work_.cancelled(); }

  // Makes everything again if an error has left it unusable. Call it before session().
  Status ready();
  EncoderDecoder& session() { return *session_; }

private:
  enum class State { none, running, done };

  ResumableGeneration(std::shared_ptr<const Model> model, EncoderDecoderOptions session_options)
      : model_(std::move(model)), session_options_(session_options) {}
  Status make();
  Status check_cancelled();
  void finish();
  template <class T>
  T failed(T result);
  Result<SliceResult> slice(VkCommandBuffer into, double budget, const SubmitSync& sync);

  std::shared_ptr<const Model> model_;
  EncoderDecoderOptions session_options_;
  bool prepared_ = false; // kernels are compiled before they run
  ResumableWork work_;
  std::unique_ptr<EncoderDecoder> session_;
  State state_ = State::none;
  // Of the current or last inputs.
  std::vector<EncoderInput> inputs_;
  GenerationOptions options_;
  std::vector<std::vector<Hypothesis>> texts_;
};

} // namespace pumice
