#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/progress.h"
#include "step/work/resumable_encoder.h"
#include "task/task_model.h"

namespace pumice {

// How much a task runs at a time.
struct RunOptions {
  uint32_t max_tokens = 0;   // of a text, which is cut; 0: as the model's settings say, at most 8,192
  uint32_t batch_tokens = 0; // most tokens of a step; 0: 2,048
  uint32_t inputs = 0;       // most of a step, if fewer than fit; 0: as many as fit
  bool ids = false;          // inputs are token ids: no tokenizer is needed
};

// Runs an encoder on any number of texts or pictures, as many in a step as fit, and reads a row for each.
// Used by one thread at a time, except cancel().
class InputRunner {
public:
  // Of a text, unless the options ask for more: a step's memory grows with it.
  static constexpr uint32_t most_text_tokens = 8192;

  // `usual_tokens`: of a text where the options do not say; 0: no other limit than theirs.
  static Result<std::unique_ptr<InputRunner>> create(std::shared_ptr<const Model> model, TaskModel source,
                                                     const RunOptions& options, uint32_t usual_tokens = 0,
                                                     const Making& making = {});

  // Turns a text into at most `limit` tokens.
  using Encode = std::function<Tokenizer::Encoding(size_t limit)>;
  // `name` names the input in errors. A text that is too long is cut, and counted.
  Result<EncoderInput> read(const Encode& encode, const std::string& name);
  Result<EncoderInput> read(const std::string& text, const std::string& name);
  // Tokens, with those around a text; too many are an error.
  Result<EncoderInput> read(std::vector<uint32_t> ids, const std::string& name);
  Result<EncoderInput> read(const Image& picture, const std::string& name) const;

  // Tokens that are an input as they are.
  Result<EncoderInput> read(const Tokenizer::Encoding& encoding, const std::string& name);

  // Receives an input's index and its row, or those of its outputs or tokens, one after the other.
  using Take = std::function<Status(size_t index, std::vector<float> row)>;
  // The rows come in order, those of a step while the device has the next one. `progress` is asked while each
  // step runs.
  Status run(std::span<const EncoderInput> inputs, const Take& take, const Progress& progress = {});
  Result<std::vector<std::vector<float>>> run(std::span<const EncoderInput> inputs);
  // Of texts that are several inputs each, or none: receives a text's index and the rows of all its inputs.
  Status run_parts(std::span<const std::vector<EncoderInput>> texts, const Take& take,
                   const Progress& progress = {});
  // The same in slices: begin(), then slice() until it is no longer active. Its calls give `take` what is
  // done. Ends what was begun before, as run() does. After discard(), the step under way starts again.
  Status begin(std::vector<EncoderInput> inputs, Take take);
  Result<SliceResult> slice(const SliceRequest& request);
  Status discard() { return encoding_->discard(); }
  bool done() const { return done_; } // all that was begun, and nothing else since then
  // From any thread: run() or slice() ends with `cancelled`, after at most one more step.
  void cancel();

  const TaskModel& source() const { return source_; }
  uint32_t columns() const { return encoding_->columns(); }
  uint32_t limit() const { return limit_; }             // tokens of a text
  uint32_t most_inputs() const { return most_inputs_; } // of a step
  const Model& model() const { return *model_; }

  struct Figures {
    uint64_t inputs = 0, tokens = 0, steps = 0;
    uint64_t cut = 0;     // texts
    uint64_t unknown = 0; // texts of which more tokens are unknown than known
    double seconds = 0;   // of the steps
  };
  const Figures& figures() const { return figures_; }

private:
  InputRunner(std::shared_ptr<const Model> model, TaskModel source)
      : model_(std::move(model)), source_(std::move(source)), shape_(source_.shape()) {}

  using Clock = std::chrono::steady_clock;
  struct Step {
    size_t first = 0, count = 0; // of its inputs; none: all were in steps before
    Clock::time_point begin = {};
  };
  // Runs the inputs from one on, as many as fit, or opens them for slices.
  Result<Step> begin_step(std::span<const EncoderInput> inputs, size_t first, bool in_slices = false);
  Status hand_out(std::span<const EncoderInput> inputs, const Step& step, const std::vector<float>& rows,
                  const Take& take) const;
  bool mostly_unknown(std::span<const uint32_t> ids) const;

  const std::shared_ptr<const Model> model_;
  const TaskModel source_;
  const EncoderShape shape_;
  std::unique_ptr<ResumableEncoder> encoding_;
  uint32_t limit_ = 0, most_inputs_ = 0;
  Figures figures_;
  // In slices:
  std::vector<EncoderInput> inputs_;
  Take take_;
  Step step_; // under way
  bool done_ = false;
  std::atomic<bool> cancelled_ = false;
};

} // namespace pumice
