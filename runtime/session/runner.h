#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "plan/recording.h"
#include "session/caches.h"
#include "session/model.h"
#include "session/step_ring.h"

namespace pumice {

// A row of a step: one token at one position of one sequence.
struct StepToken {
  uint32_t token = 0;
  uint32_t position = 0;
  uint32_t sequence = 0;
  uint32_t first = 0;  // the first position that attention may see
  bool output = false; // its logits are wanted
  uint32_t target = 0; // of an output: the token that "log_likelihoods" is about
  // Of an encoder's step.
  uint32_t token_type = 0;
  uint32_t end = 0; // after the last position of its input, which begins at `first`
};

enum class Part { decoder, encoder };

// Positions of one input of an encoder among all those that are kept.
struct InputRange {
  uint32_t first = 0;
  uint32_t end = 0;

  bool operator==(const InputRange&) const = default;
};

struct RunnerOptions {
  Part part = Part::decoder;
  SessionSize size; // of an encoder's steps: `chunk` tokens of `sequences` inputs, each an output
  std::shared_ptr<const Caches> caches; // those of the decoder's runner; null: its own
  bool sampling = true;     // end each step with sampling, which prepares the next one on the device
  bool all_outputs = false; // any row may be an output; otherwise at most one for each sequence
  std::vector<std::string>
      kept; // tensors that the host reads after a step: see Model::graph and Model::encoder_graph
};

// Runs a model's steps, its decoder's or its encoder's: owns their memory and the recordings made for them.
// One thread at a time.
class Runner {
public:
  static Result<std::unique_ptr<Runner>> create(std::shared_ptr<const Model> model, RunnerOptions options);

  const Model& model() const { return *model_; }
  const std::shared_ptr<const Model>& shared_model() const { return model_; }
  const SessionSize& size() const { return memory_.size; }
  // Where the keys and values of each layer are.
  std::span<const CacheRef> caches() const { return memory_.caches; }
  const Buffer& cache_part(uint32_t part) const { return caches_->part(part); }
  const std::shared_ptr<const Caches>& shared_caches() const { return caches_; }
  // Whether a sequence that was written up to `written_end` can go on from `position` instead: every layer
  // still holds what is seen from there.
  bool can_resume(uint32_t position, uint32_t written_end) const;

  // The plan of a step in another style, whose tensors lie as in the runner's own; its scratch may be larger.
  Result<Plan> plan_in(const KernelStyle& style, Bucket bucket) const;
  // What a plan's range lies in.
  const Buffer& buffer(const BufferRef& ref) const;

  // Makes what steps of up to this many tokens need, so that the first one does not have to.
  Status prepare(uint32_t tokens);
  // Takes the rows of the next step, while those before it may still run. At most size().chunk rows. Tokens
  // must be in the vocabulary and positions in the context; at most one output for each sequence, unless
  // all_outputs was asked for.
  Status write_step(std::span<const StepToken> rows);
  // Which of the encoder's inputs a sequence is about, from the next step on.
  Status set_input(uint32_t sequence, InputRange input);
  // Of a session of beams: in whose caches the positions of a sequence lie, from the next step on.
  Status set_origins(uint32_t sequence, std::span<const uint32_t> origins);
  // A row of the tensor that the host fills: a picture, or a sound, of the next step of `tokens` rows.
  Status write_input(uint32_t tokens, uint32_t row, std::span<const float> values);
  // Submits a step of `tokens` rows: those written, or those that the last step's sampling left; `steps` of
  // them where each leaves the next one's. Returns the timeline value that is reached when all are done.
  Result<uint64_t> submit(uint32_t tokens, uint32_t steps = 1);
  Status wait(uint64_t value) const { return model_->context().device->wait(value); }

  // A kept tensor of the last step: `rows` rows of its columns, from row `first` on.
  Result<std::vector<float>> read(const std::string& name, uint32_t rows, uint32_t first = 0) const;
  uint32_t columns(const std::string& name) const;
  bool per_output(const std::string& name) const; // whether it has a row for each output, not for each token
  // Sampling's state. Written only while no step runs that has outputs.
  std::span<std::byte> sampling_memory() const { return sampling_.mapped(); }

  // Runs one step like submit(), timed: the seconds of each dispatch of plan(tokens), in its order.
  Result<std::vector<double>> profile(uint32_t tokens);

  // Bytes of device memory that this runner holds, without the model's weights.
  uint64_t device_bytes() const;
  // The plan of a step of up to this many tokens.
  Result<const Plan*> plan(uint32_t tokens);

private:
  struct Bucketed {
    Plan plan;
    std::unique_ptr<Recording> recording; // null until it is first needed
  };

  Runner(std::shared_ptr<const Model> model, RunnerOptions options)
      : model_(std::move(model)), options_(std::move(options)) {}
  Status check_size() const;
  Status plan_all();
  Status check_row(const StepToken& row) const;
  Status allocate();
  Bucketed& bucket_for(uint32_t tokens);

  std::shared_ptr<const Model> model_;
  RunnerOptions options_;
  MemoryPlan memory_;
  Graph graph_;
  std::map<uint32_t, Bucketed> buckets_; // by tokens
  std::shared_ptr<const Caches> caches_;
  Buffer step_, sampling_, scratch_, inputs_, outputs_;
  StepRing step_ring_;
  uint64_t last_submission_ = 0;
  uint32_t last_tokens_ = 1; // of the last submission
};

} // namespace pumice
