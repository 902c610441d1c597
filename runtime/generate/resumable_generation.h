#pragma once

#include "generate/encoder_decoder.h"
#include "step/work/making.h"
#include "step/work/resumable_work.h"

namespace pumice {

// An encoder with a decoder, for use inside an application: it generates the texts of inputs in slices of
// time or all at once, with the same result.
class ResumableGeneration : public ResumableWork<EncoderDecoder> {
public:
  // `usual`: of the calls for which it is prepared.
  static Result<std::unique_ptr<ResumableGeneration>> create(std::shared_ptr<const Model> model,
                                                             EncoderDecoderOptions options,
                                                             const GenerationOptions& usual,
                                                             const Making& making);

  // Ends what is under way, and forgets a cancel() before this. Waits for the slices in flight.
  Status stop();
  // Takes inputs, after stop() or after the texts of other ones, and computes nothing yet. Without an
  // interrupt in the options, cancel() is one.
  Status start(std::vector<EncoderInput> inputs, GenerationOptions options);

  // The same for some of those inputs, whose options kept them (GenerationOptions::keep_inputs): their texts
  // are generated again, with other options and without the encoder.
  Status again(std::span<const size_t> indices, GenerationOptions options);

  // Generates to the end. In slices, discard() runs the inputs from the beginning.
  Status run();

  // A list of texts for each input. `not_ready` if they are not complete.
  Result<std::span<const std::vector<Hypothesis>>> texts();
  std::span<const EncoderInput> inputs() const { return inputs_; }

  EncoderDecoder& session() { return *object_; } // only after ready()

private:
  enum class State { none, running, done };

  ResumableGeneration(std::shared_ptr<const Model> model, EncoderDecoderOptions session_options)
      : ResumableWork(std::move(model), "writing"), session_options_(session_options) {}
  Status make_object(const Progress& progress) override;
  Status warm_up(const GenerationOptions& usual);
  Status collect() override;
  bool active() const override { return state_ == State::running; }
  Status fill(Slice& slice) override;
  double largest_dispatch() const override { return object_->largest_dispatch(*slicer_); }
  Result<bool> end() override;
  Status restart() override;
  void set(std::vector<EncoderInput> inputs, GenerationOptions options);
  Status begun(Status status);
  void take_texts();
  template <class T>
  T failed(T result);

  EncoderDecoderOptions session_options_;
  bool prepared_ = false; // kernels are compiled before they run
  size_t compiling_threads_ = 0;
  State state_ = State::none;
  // Of the current or last inputs.
  std::vector<EncoderInput> inputs_;
  GenerationOptions options_;
  std::vector<std::vector<Hypothesis>> texts_;
};

} // namespace pumice
