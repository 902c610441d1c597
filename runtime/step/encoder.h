#pragma once

#include "step/cache/position_pool.h"
#include "step/runner.h"

namespace pumice {

// The input of an encoder: tokens, or the values of a picture or a sound (EncoderShape::input_shape), or of
// each of a picture's patches: squares row by row, and the patches of each in turn.
struct EncoderInput {
  std::vector<uint32_t> tokens;
  std::vector<uint32_t> token_types; // one for each token, or empty if all are 0
  std::vector<float> values;
  PatchGrid grid = {}; // of the patches; of a tile see PictureTokens::rows_of()
  // Tokens, in their order, that tensors with a row for each output have rows of; empty: the first.
  std::vector<uint32_t> outputs = {};
  // Tokens, from the first, that others see; those after them see these, and are seen by none. 0: all.
  uint32_t seen = 0;

  uint32_t output_count() const { return outputs.empty() ? 1 : static_cast<uint32_t>(outputs.size()); }
};

struct EncoderOptions {
  uint32_t tokens = 0; // most positions of a step; 0: the most that one input has
  uint32_t inputs = 1; // most inputs of a step, and outputs of all of them
  CacheType cache = CacheType::f32;
  std::vector<std::string> readable;    // names of tensors that read() gives: see Model::encoder_graph
  std::shared_ptr<const Caches> caches; // those of the decoder's runner, if there is a decoder
  ExternalBuffer input;                 // see RunnerOptions
  ExternalBuffer output;
};

// Runs a model's encoder. Inputs of different lengths share a step without padding, and each gets the same
// bits as alone. If there is a decoder, the keys and values of the inputs stay in the session's caches until
// release(). Used by one thread at a time.
class Encoder {
public:
  static Result<std::unique_ptr<Encoder>> create(std::shared_ptr<const Model> model, EncoderOptions options);

  // The options that its runner is made with.
  static Result<RunnerOptions> runner_options(const Model& model, EncoderOptions options);
  // The largest block of positions that an attention over the caches of the inputs takes on the model's
  // device, and where it is the last of several stages, on theirs. Each input begins at a multiple of it.
  static uint32_t position_block(const Model& model, CacheType cache);
  // The positions that the caches need for steps of `tokens` tokens of `inputs` inputs.
  static uint32_t cache_positions(const Model& model, CacheType cache, uint32_t tokens, uint32_t inputs);

  // How many of these inputs, from the first on, fit one step. 0: the first one is too long, or others must
  // be released first.
  size_t fitting(std::span<const EncoderInput> inputs);
  // Runs inputs that fit one step, and returns the positions of each one's keys and values.
  Result<std::vector<InputRange>> encode(std::span<const EncoderInput> inputs);
  // The same in slices: opens the step, and Runner::fill() then runs it.
  Result<std::vector<InputRange>> open(std::span<const EncoderInput> inputs);
  void release(const InputRange& input) { pool_.release(input); }

  // The values of a readable tensor for one input of the last encode(): a row for each position, or one for
  // each of its outputs.
  Result<std::vector<float>> read(const std::string& name, size_t input) const;
  uint32_t columns(const std::string& name) const { return runner_->columns(name); }

  const EncoderShape& shape() const { return *runner_->model().shape().encoder; }
  uint32_t longest() const; // most positions of one input
  uint64_t steps() const { return steps_; }
  Runner& runner() { return *runner_; }

private:
  Encoder(std::unique_ptr<Runner> runner, uint32_t block);
  uint32_t positions(const EncoderInput& input) const;
  Status check(const EncoderInput& input) const;
  Status check_patches(const EncoderInput& input) const;
  Status begin(std::span<const EncoderInput> inputs);
  Result<uint32_t> write(std::span<const EncoderInput> inputs);
  Result<uint32_t> write_patches(std::span<const EncoderInput> inputs);
  // Takes positions for as many inputs, from the first on, as fit one step.
  std::vector<InputRange> take_fitting(std::span<const EncoderInput> inputs);
  void release_all(std::span<const InputRange> ranges);
  Result<std::vector<InputRange>> take(std::span<const EncoderInput> inputs);
  template <class Start>
  Result<std::vector<InputRange>> start(std::span<const EncoderInput> inputs, const Start& start_step);

  std::unique_ptr<Runner> runner_;
  bool external_input_ = false; // values come from the application's buffer
  PositionPool pool_;
  std::vector<InputRange> ranges_;   // of the last step's inputs
  std::vector<uint32_t> first_rows_; // in that step
  std::vector<uint32_t> outputs_;    // of each of them
  uint64_t steps_ = 0;
};

} // namespace pumice
