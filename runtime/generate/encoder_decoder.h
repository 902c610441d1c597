#pragma once

#include <atomic>
#include <functional>

#include "generate/beam_search.h"
#include "generate/logit_rules.h"
#include "step/batch.h"
#include "step/encoder.h"

namespace pumice {

struct EncoderDecoderOptions {
  uint32_t inputs = 1;        // inputs that run at a time
  uint32_t beams = 1;         // of each
  uint32_t input_tokens = 0;  // most positions of those inputs together; 0: the most that one input has
  uint32_t output_tokens = 0; // most tokens of a text, its prompt included; 0: the model's context
  CacheType cache = CacheType::f32;
};

// How one call decodes.
struct GenerationOptions {
  GenerationConfig config; // its beams are those of the session or 1
  SamplingParams sampling; // used without beams; the suppressed tokens and ends of `config` are added
  size_t hypotheses = 1;   // texts of each input, best first, at most its beams
  LogitRule rule;          // applied in addition to the rules of `config`
  // Called for each token, without beams only. `input` is an index into the inputs of the call.
  std::function<void(size_t input, uint32_t token)> on_token;
  // Called when the texts of an input are complete; other inputs may still be under way.
  std::function<void(size_t input, const std::vector<Hypothesis>& texts)> on_texts;
  Progress progress; // counts finished inputs
  // Checked between submissions: once it is set, generate() returns `cancelled`.
  const std::atomic<bool>* interrupt = nullptr;

  bool interrupted() const { return interrupt && *interrupt; }
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

  const Model& model() const { return decoder_->model(); }
  Encoder& encoder() { return *encoder_; }
  Runner& decoder() { return *decoder_; }
  // How many tokens of a text come together, without beams and rules on the host.
  uint32_t steps_per_submit() const { return batch_ ? batch_->steps_per_submit() : 1; }

private:
  // The beam search for one input.
  struct Search {
    size_t input = 0; // of the call
    uint32_t first_slot = 0;
    BeamSearch beams;
    std::vector<std::vector<uint32_t>> cache_indirection; // of each beam: the slot that holds each position
  };

  EncoderDecoder() = default;
  Status check(const GenerationOptions& options) const;
  Status greedy(std::span<const InputRange> ranges, size_t first_input, const GenerationOptions& options,
                std::vector<std::vector<Hypothesis>>& texts);
  Status search(std::span<const InputRange> ranges, size_t first_input, const GenerationOptions& options,
                std::vector<std::vector<Hypothesis>>& texts);
  Status search_step(std::vector<Search>& searches, const GenerationOptions& options);
  Result<uint32_t> write_rows(std::vector<Search>& searches, const GenerationOptions& options);

  EncoderDecoderOptions options_;
  std::unique_ptr<Batch> batch_; // decodes with sampling on the device, if the host has no rules to apply
  std::unique_ptr<Runner> search_runner_; // runs steps whose tokens the host chooses
  Runner* decoder_ = nullptr;
  std::unique_ptr<Encoder> encoder_;
};

} // namespace pumice
