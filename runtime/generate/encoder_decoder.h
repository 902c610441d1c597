#pragma once

#include "generate/decoding.h"
#include "step/encoder.h"

namespace pumice {

struct EncoderDecoderOptions {
  uint32_t inputs = 1;       // inputs that run at a time
  uint32_t beams = 1;        // of each
  uint32_t input_tokens = 0; // most positions of those inputs together; 0: the most that one input has
  uint32_t output_tokens =
      0; // most tokens of a text, its prompt included; 0: the model's own, at most default_context
  CacheType cache = CacheType::f32;
};

// Generates texts from inputs: runs each input through the encoder once, then generates with the decoder,
// whose cross-attention reads the result. Several inputs run together and get the same texts as alone. Used
// by one thread at a time.
class EncoderDecoder {
public:
  static Result<std::unique_ptr<EncoderDecoder>> create(std::shared_ptr<const Model> model,
                                                        EncoderDecoderOptions options);

  // The options of the runners of its decoder and its encoder, without the caches that they share.
  static Result<std::vector<RunnerOptions>> runner_options(const Model& model,
                                                           const EncoderDecoderOptions& options);

  // A list of texts for each input.
  Result<std::vector<std::vector<Hypothesis>>> generate(std::span<const EncoderInput> inputs,
                                                        const GenerationOptions& options);

  // The same piece by piece: begin(), then step() until it is no longer active(), or run(), and then
  // take_texts(). The inputs must stay where they are until then. Another begin() ends what is under way.
  // After an error, end() or begin() is next.
  Status begin(std::span<const EncoderInput> inputs, const GenerationOptions& options);
  // Generates other texts of some of the inputs of the last begin(), whose options kept them, without the
  // encoder. `inputs`: those of the indices.
  Status again(std::span<const size_t> indices, std::span<const EncoderInput> inputs,
               const GenerationOptions& options);
  bool active() const { return run_ && run_->first < run_->inputs.size(); }
  // Submits a step, and takes in the oldest one whose results are there, for which it waits.
  Status step();
  Status run();
  std::vector<std::vector<Hypothesis>> take_texts() { return std::move(run_->texts); }
  // Waits for the steps in flight, and forgets the inputs.
  Status end();

  // In slices, instead of step(): fill() puts the next dispatches into the current slice, as many as fit, and
  // collect() does the host's part of steps that are known to have finished. Neither waits. It stays active()
  // until all slices have finished.
  Status fill(Slice& slice);
  Status collect(const Slicer& slicer);
  // Expected seconds of the largest dispatch of the current step.
  double largest_dispatch(const Slicer& slicer) const;

  // Compiles the kernels of all steps of calls with such options.
  Status prepare(const GenerationOptions& options, size_t threads = 0, const Progress& progress = {});

  const Model& model() const { return decoder_->model(); }
  Encoder& encoder() { return *encoder_; }
  Runner& decoder() { return *decoder_; }
  // How many tokens of a text come together, without beams and rules on the host.
  uint32_t steps_per_submit() const { return batch_ ? batch_->steps_per_submit() : 1; }

private:
  // A call of generate().
  struct Run {
    std::span<const EncoderInput> inputs;
    GenerationOptions options;
    std::vector<std::vector<Hypothesis>> texts; // of each input
    // Inputs that run together, from `first` on. Their encoder's step has begun if they have ranges, and is
    // submitted, or in slices, once there is a decoding.
    size_t first = 0;
    std::vector<InputRange> ranges;
    std::unique_ptr<Decoding> decoding;
  };

  EncoderDecoder() = default;
  Status check(const GenerationOptions& options) const;
  Status check_terms(const GenerationOptions& options, size_t inputs) const;
  bool samples_on_device(const GenerationOptions& options) const;
  bool searches_on_device(const GenerationOptions& options) const;
  Runner& runner_of(const GenerationOptions& options) const;
  Status make_runner(const GenerationOptions& options);
  Result<std::span<const EncoderInput>> next_inputs();
  Status open_run(std::span<const EncoderInput> inputs, const GenerationOptions& options);
  Status begin_decoding();
  Status end_decoding();
  void release_kept();

  EncoderDecoderOptions options_;
  std::unique_ptr<Batch> batch_; // decodes with sampling on the device, if the host has no rules to apply
  std::unique_ptr<Runner> search_runner_; // runs steps that find the best continuations
  Runner* decoder_ = nullptr;
  std::unique_ptr<Encoder> encoder_;
  std::unique_ptr<Run> run_;            // none before the first call
  std::vector<InputRange> kept_;        // of inputs that have their texts
  std::unique_ptr<Runner> host_runner_; // runs steps whose tokens the host chooses from the logits
};

} // namespace pumice
