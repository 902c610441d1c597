#pragma once

#include "step/position_pool.h"
#include "step/runner.h"

namespace pumice {

// What an encoder reads: tokens, or the numbers of a picture or a sound (EncoderShape::input_shape).
struct EncoderInput {
  std::vector<uint32_t> tokens;
  std::vector<uint32_t> token_types; // as many, or none where all are 0
  std::vector<float> values;
};

struct EncoderOptions {
  uint32_t tokens = 0; // most positions of a step; 0: the most that one input has
  uint32_t inputs = 1; // most inputs of a step
  CacheType cache = CacheType::f32;
  std::vector<std::string> kept;        // what read() gives: see Model::encoder_graph
  std::shared_ptr<const Caches> caches; // those of the decoder's runner, where there is a decoder
  ExternalBuffer input;                 // as RunnerOptions has them
  ExternalBuffer output;
};

// Runs a model's encoder: inputs of different lengths side by side in one step, without padding, each with
// the same bits as alone. For a decoder it leaves their keys and values in the session's caches until they
// are released. Used by one thread at a time.
class Encoder {
public:
  static Result<std::unique_ptr<Encoder>> create(std::shared_ptr<const Model> model, EncoderOptions options);

  // What its runner is made with.
  static Result<RunnerOptions> runner_options(const Model& model, EncoderOptions options);
  // Positions that caches need for steps of so many tokens of so many inputs.
  static uint32_t cache_positions(const Model& model, CacheType cache, uint32_t tokens, uint32_t inputs);

  // How many of the first of these fit one step. None: the first one never will, or room has to be made.
  size_t fitting(std::span<const EncoderInput> inputs);
  // Runs them, and returns where each one's keys and values are. They have to fit.
  Result<std::vector<InputRange>> encode(std::span<const EncoderInput> inputs);
  // The same, where the runner puts its steps into slices: opens the step, for its fill().
  Status open(std::span<const EncoderInput> inputs);
  void release(const InputRange& input) { pool_.release(input); }

  // Of an input of the last encode(): its rows of a kept tensor, or its only one.
  Result<std::vector<float>> read(const std::string& name, size_t input) const;
  uint32_t columns(const std::string& name) const { return runner_->columns(name); }

  const EncoderShape& shape() const { return *runner_->model().shape().encoder; }
  uint32_t longest() const; // positions of an input
  uint64_t steps() const { return steps_; }
  Runner& runner() { return *runner_; }

private:
  Encoder(std::unique_ptr<Runner> runner, uint32_t block);
  uint32_t positions(const EncoderInput& input) const;
  Status check(const EncoderInput& input) const;
  Status begin(std::span<const EncoderInput> inputs);
  Result<uint32_t> write(std::span<const EncoderInput> inputs);
  // Places for as many of the first inputs as fit a step.
  std::vector<InputRange> take_fitting(std::span<const EncoderInput> inputs);
  void release_all(std::span<const InputRange> ranges);
  Result<std::vector<InputRange>> take(std::span<const EncoderInput> inputs);

  std::unique_ptr<Runner> runner_;
  bool given_ = false; // numbers come from the application's buffer
  PositionPool pool_;
  std::vector<InputRange> ranges_;   // of the last step's inputs
  std::vector<uint32_t> first_rows_; // in that step
  uint64_t steps_ = 0;
};

} // namespace pumice
