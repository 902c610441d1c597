#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "model/model.h"
#include "recording/completion.h"
#include "recording/recording.h"
#include "step/caches.h"
#include "step/step_ring.h"

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

enum class ModelPart { decoder, encoder };

// A part of a buffer of the application's.
struct ExternalBuffer {
  VkBuffer buffer = VK_NULL_HANDLE; // none
  uint64_t offset = 0;
  uint64_t bytes = 0;
};

struct RunnerLayout; // step/runner_layout.h

// Positions of one input of an encoder among all those that are kept.
struct InputRange {
  uint32_t first = 0;
  uint32_t end = 0;

  bool operator==(const InputRange&) const = default;
};

struct RunnerOptions {
  ModelPart part = ModelPart::decoder;
  SessionSize size; // of an encoder's steps: `chunk` tokens of `sequences` inputs, each an output
  std::shared_ptr<const Caches> caches; // those of the decoder's runner; null: its own
  bool sampling = true;     // end each step with sampling, which prepares the next one on the device
  bool all_outputs = false; // any row may be an output; otherwise at most one for each sequence
  std::vector<std::string>
      kept;             // tensors that the host reads after a step: see Model::graph and Model::encoder_graph
  ExternalBuffer input; // where each step's numbers come from, if there is one, in place of write_input()
  ExternalBuffer output; // where the first kept tensor's rows are copied by each step, as many as fit
};

// Runs a model's steps, its decoder's or its encoder's: owns their memory and the recordings made for them.
// One thread at a time.
class Runner {
public:
  static Result<std::unique_ptr<Runner>> create(std::shared_ptr<const Model> model, RunnerOptions options);
  // Steps under way use its memory: waits for them.
  ~Runner();

  const Model& model() const { return *model_; }
  const std::shared_ptr<const Model>& shared_model() const { return model_; }
  const SessionSize& size() const { return memory_.size; }
  // Where the keys and values of each layer are.
  std::span<const CacheRef> caches() const { return memory_.caches; }
  const Buffer& cache_allocation(uint32_t index) const { return caches_->allocation(index); }
  const std::shared_ptr<const Caches>& shared_caches() const { return caches_; }
  // Whether a sequence that was written up to `written_end` can go on from `position` instead: every layer
  // still holds what is seen from there.
  bool can_resume(uint32_t position, uint32_t written_end) const;

  // The plan of a step in another profile, whose tensors lie as in the runner's own; its scratch may be
  // larger.
  Result<Plan> plan_in(const DeviceProfile& profile, Bucket bucket) const;
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
  Status set_cache_indirection(uint32_t sequence, std::span<const uint32_t> cache_indirection);
  // A row of the tensor that the host fills: a picture, or a sound, of the next step of `tokens` rows.
  Status write_input(uint32_t tokens, uint32_t row, std::span<const float> values);
  // Submits a step of `tokens` rows: those written, or those that the last step's sampling left; `steps` of
  // them where each leaves the next one's. Returns when all are done.
  Result<Completion> submit(uint32_t tokens, uint32_t steps = 1);

  // A kept tensor of the last step: `rows` rows of its columns, from row `first` on.
  Result<std::vector<float>> read(const std::string& name, uint32_t rows, uint32_t first = 0) const;
  uint32_t columns(const std::string& name) const;
  bool per_output(const std::string& name) const; // whether it has a row for each output, not for each token
  // Sampling's state. Written only while no step runs that has outputs.
  std::span<std::byte> sampling_memory() const { return sampling_.mapped(); }

  // A step in slices, in place of submit(): open_step() takes the step that would be submitted, where
  // write_step() does not have to wait for a place. fill() puts as much of it as fits into the slice that has
  // been begun. Returns when the step is done, once its last dispatch is in a slice.
  Result<bool> place_free() const { return step_ring_.next_place().finished(); }
  Status open_step(uint32_t tokens);
  bool step_open() const { return open_ != nullptr; }
  Result<std::optional<Completion>> fill(TimeSlicer& slices);
  void close_step() { open_ = nullptr; } // leaves out what has not been put into slices
  // What the largest dispatch of the open step, or else of the last one, is expected to take, in seconds.
  double largest_dispatch(const TimeSlicer& slices) const;
  // What submit() looks at between submissions of one step, which then ends with `cancelled`.
  void set_interrupt(const std::atomic<bool>* interrupt) { interrupt_ = interrupt; }
  // A guess at what a step of so many tokens takes, on the slow side.
  Result<double> guessed_step_seconds(uint32_t tokens);
  // Makes steps of all sizes, and has the driver do what it does when it first sees them. Waits for it.
  Status prepare_all();

  // Runs one step like submit(), timed: the seconds of each dispatch of plan(tokens), in its order.
  Result<std::vector<double>> time_dispatches(uint32_t tokens);

  // Bytes of device memory that this runner holds, without the model's weights.
  uint64_t device_bytes() const;
  // The plan of a step of up to this many tokens.
  Result<const Plan*> plan(uint32_t tokens);

private:
  struct Bucketed {
    Plan plan;
    std::unique_ptr<Recording> recording; // null until it is first needed
    std::shared_ptr<CostTable> costs;     // as well
  };

  Runner(std::shared_ptr<const Model> model, RunnerOptions options)
      : model_(std::move(model)), options_(std::move(options)) {}
  Status check_row(const StepToken& row) const;
  Status allocate(const RunnerLayout& plan);
  Bucketed& bucket_for(uint32_t tokens);
  PlanCopies copies(const Plan& plan) const;

  std::shared_ptr<const Model> model_;
  RunnerOptions options_;
  SessionMemory memory_;
  Graph graph_;
  std::map<uint32_t, Bucketed> buckets_; // by tokens
  std::shared_ptr<const Caches> caches_;
  Buffer step_, sampling_, scratch_, inputs_, outputs_;
  StepRing step_ring_;
  const std::atomic<bool>* interrupt_ = nullptr;
  Bucketed* open_ = nullptr; // of the step that is being put into slices
  size_t next_dispatch_ = 0;
  Completion last_submission_;
  uint32_t last_tokens_ = 1; // of the last submission
};

} // namespace pumice
