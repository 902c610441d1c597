#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/progress.h"
#include "kernel/sampling/sampling.h"
#include "model/model.h"
#include "recording/completion.h"
#include "recording/plan_outputs.h"
#include "recording/recording.h"
#include "step/adapter_places.h"
#include "step/cache/caches.h"
#include "step/cache/step_ring.h"
#include "step/hop_buffers.h"
#include "step/last_stage.h"
#include "step/slicer.h"
#include "step/staged_step.h"

namespace pumice {

// A row of a step: one token at one position of a sequence.
struct StepToken {
  // With the bit PROMPT_ROW: none, the row's embedding is what write_input() gives. Of a patch: its window,
  // or its picture's size, as common/step.h has it.
  uint32_t token = 0;
  uint32_t position = 0;
  uint32_t sequence = 0;
  uint32_t first = 0;      // the first position that attention may read
  bool output = false;     // its logits are wanted
  uint32_t target = 0;     // of an output: the token whose log-likelihood "log_likelihoods" gives
  uint32_t drafts = 0;     // of an output that is sampled: rows before it in this step that were guessed at
  uint32_t token_type = 0; // of an encoder's step
  // Of an encoder's step: after the last position of its input, which begins at `first`. Of a picture's row
  // that sees all of it: after the picture's last position; it is in the same step.
  uint32_t end = 0;
  // Of a decoder whose rotary positions are places: added to its place, which lags behind the position as its
  // sequence's does, see set_place_lag(). Of a picture's row, and of a patch: its place down and across in
  // the picture.
  uint32_t position_offset = 0;
  uint32_t down = 0, across = 0;
};

enum class ModelPart { decoder, encoder };

// A range of a buffer that belongs to the application.
struct ExternalBuffer {
  VkBuffer buffer = VK_NULL_HANDLE; // none
  uint64_t offset = 0;
  uint64_t bytes = 0;
};

struct RunnerLayout; // step/runner_layout.h

// The positions of one encoder input in the caches of the encoder's inputs.
struct InputRange {
  uint32_t first = 0;
  uint32_t end = 0;

  bool operator==(const InputRange&) const = default;
};

struct RunnerOptions {
  ModelPart part = ModelPart::decoder;
  SessionSize size; // of an encoder's steps: `chunk` tokens of `sequences` inputs, each an output
  std::shared_ptr<const Caches> caches; // those of the decoder's runner; null: the runner makes its own
  bool sampling = true;     // end each step with sampling, which also writes the next step on the device
  bool all_outputs = false; // any row may be an output; otherwise at most one for each sequence
  std::vector<std::string>
      readable; // names of tensors that read() gives: see Model::graph and Model::encoder_graph
  // What its sequences' adapters may be; null: they have none. Only of a decoder on one device.
  std::shared_ptr<const AdapterRoom> adapters;
  ExternalBuffer input; // if given, each step reads its input values from there instead of from write_input()
  ExternalBuffer
      output; // if given, each step copies the rows of the first readable tensor there, as many as fit
};

// Runs the steps of a model's decoder or encoder. Owns their memory and their recordings. Used by one thread
// at a time.
class Runner {
public:
  static Result<std::unique_ptr<Runner>> create(std::shared_ptr<const Model> model, RunnerOptions options);
  // Waits for steps in flight, which use its memory.
  ~Runner();

  const Model& model() const { return *model_; }
  const std::shared_ptr<const Model>& shared_model() const { return model_; }
  const SessionSize& size() const { return memory_.size; }
  // Where the keys and values of each layer are.
  std::span<const CacheRef> caches() const { return memory_.caches; }
  const Buffer& cache_allocation(uint32_t index) const { return caches_->allocation(index); }
  const std::shared_ptr<const Caches>& shared_caches() const { return caches_; }
  // Where the states of its recurrent operations are.
  std::span<const StateRef> states() const { return memory_.states; }
  // Where a sequence that was written up to `written_end` can go back to and go on from: the last position up
  // to `position` at which all layers still hold what a token reads. 0 if there is none.
  uint32_t resume_point(uint32_t position, uint32_t written_end, const StateHistory& states) const;

  // A plan with another profile. Its tensors have the same places as in the runner's own plan, but it may
  // need more scratch.
  Result<Plan> plan_in(const DeviceProfile& profile, Bucket bucket) const;
  // The buffer that a range of a plan lies in.
  const Buffer& buffer(const BufferRef& ref) const;

  // Compiles and records the plan for steps of this size now, so that the first such step need not. Where the
  // context has DeviceContext::compiling, the driver has compiled all kernels then.
  Status prepare(uint32_t tokens);
  // Writes the rows of the next step; earlier steps may still run. At most size().chunk rows. Tokens
  // must be in the vocabulary and positions in the context; at most one output for each sequence, unless
  // all_outputs was asked for.
  Status write_step(std::span<const StepToken> rows);
  // Records what write_step() wrote into commands that run the launches of a plan themselves. They must have
  // run before the next write_step().
  void record_rows(Commands& commands);
  // Sets the encoder input that the cross-attention of a sequence reads, from the next step on.
  Status set_input(uint32_t sequence, InputRange input);
  // Sets how far the rotary places of a sequence's rows lag behind their positions, from the next step on.
  Status set_place_lag(uint32_t sequence, uint32_t lag);
  // Sets the adapter of a sequence's rows, from the next step on. It is copied to the device if it is not
  // there. Only with RunnerOptions::adapters, unless it is none.
  Status set_adapter(uint32_t sequence, const AdapterChoice& choice);
  // The sequence has no rows any more until that is set again: another adapter may have its place. Does not
  // wait.
  void leave_adapter(uint32_t sequence) {
    if (adapters_) adapters_->leave(sequence);
  }
  // Whether set_adapter() would find a place for a sequence that has none.
  bool has_place(const AdapterChoice& choice) const {
    return !choice.adapter || !adapters_ || adapters_->has_place(choice.adapter);
  }
  const AdapterRoom* adapters() const { return options_.adapters.get(); } // null: there are none
  // Only with SessionSize::beams: for each position of a sequence, the sequence whose cache holds it, from
  // the next step on.
  Status set_cache_indirection(uint32_t sequence, std::span<const uint32_t> cache_indirection);
  // Only with SessionSize::pages: the pages of a sequence's positions, in order, from the next step on. Its
  // other positions are not stored.
  Status set_pages(uint32_t sequence, std::span<const uint32_t> pages);
  // As they were set.
  std::span<const uint32_t> pages(uint32_t sequence) const {
    return pages_.empty() ? std::span<const uint32_t>() : std::span(pages_[sequence]);
  }
  // Writes one picture or sound, as row `row` of the input tensor of the next step, which has `tokens` rows.
  Status write_input(uint32_t tokens, uint32_t row, std::span<const float> values);
  // Submits a step of `tokens` rows: those of write_step(), or else those that the last step's sampling
  // wrote. With `steps` above 1, so many steps, each of which starts from the sampling of the one before. The
  // result tells when all are done. `before_sampling` is called once, and nothing is sampled before: while
  // the device works on the first step, where that is possible.
  Result<Completion> submit(uint32_t tokens, uint32_t steps = 1,
                            const std::function<Status()>& before_sampling = {});

  // The values of a readable tensor after the last step: [rows, columns(name)], from row `first` on. Waits
  // for the step.
  Result<std::vector<float>> read(const std::string& name, uint32_t rows, uint32_t first = 0) const;
  uint32_t columns(const std::string& name) const;
  bool per_output(const std::string& name) const; // whether it has a row for each output, not for each token
  // Where the model is one of several stages. The last stage's runner does this itself, and the other stages'
  // runners are used with nothing else but prepare_all() and submit(). Bytes that a step of so many rows
  // receives from the stage before and sends to the next one, as plans fix them.
  bool staged() const { return last_stage_ != nullptr; } // as the last one
  // Whether a layer's keys and values are here, or a state, which are counted behind the layers.
  bool holds(size_t layer) const;
  UpstreamSteps& upstream() const { return last_stage_->upstream(); }
  uint64_t received_bytes(uint32_t tokens);
  uint64_t sent_bytes(uint32_t tokens);
  // The most steps that the host composes before the first of them is done: of one stage, the one that runs
  // and the next.
  uint32_t steps_in_stages() const;
  Status write_packed(const StepRows& rows);
  // `results`: what the rows' step received; of the first stage's encoder, the values of its inputs.
  Status write_received(const StepRows& rows, const StageResults& results);
  Status write_block(std::span<const uint32_t> pieces); // see UpstreamSteps
  // After the step, which it waits for.
  Status read_sent(uint32_t tokens, std::span<std::byte> bytes) const;
  // Places for what the next stage receives, with this alignment; null where there can be none. If the next
  // stage accepts them, a step that take_place() was called for writes there, once wait() has returned.
  std::shared_ptr<HopBuffers> offer_buffers(uint64_t alignment);
  // Accepts the places that the stage before has offered, if they can be its input. `places` may be null.
  void accept_buffers(std::shared_ptr<HopBuffers> places);
  // Of the next step; none: read_sent() has what it sends.
  std::optional<uint32_t> take_place();
  Status wait() const { return submitted_here_.wait(); }
  // Sampling's state (see SamplingState). The host may write it only while no step with outputs is in flight.
  std::span<std::byte> sampling_memory() const { return sampling_.mapped(); }
  SamplingState sampling_state() const {
    return {sampling_memory(), memory_.size.sequences, memory_.draft_mask_bytes};
  }

  // A step in slices, instead of submit(). If place_free(), write_step() does not have to wait. open_step()
  // takes the step that submit() would submit. fill() puts as much of it as fits into the current slice; once
  // the last dispatch is in a slice, the result tells when the step is done. With stages, the step goes
  // through all of them, and there is one step at a time.
  Result<bool> place_free() const { return step_ring_.next_place().finished(); }
  Status open_step(uint32_t tokens);
  bool step_open() const { return open_ || staged_step_; }
  Result<std::optional<Completion>> fill(Slice& slice);
  void close_step(); // drops the dispatches that are in no slice yet
  // Expected seconds of the largest dispatch of the open step, or of the last step if none is open.
  double largest_dispatch(const Slicer& slicer) const;
  // The part of fill() and largest_dispatch() on this runner's device, of a step that open_here() has opened.
  Status open_here(uint32_t tokens);
  Result<std::optional<Completion>> fill_here(const TimeSlicer::Slice& slice);
  double largest_here(const TimeSlicer& slicer) const;
  // submit() checks it between the submissions of a step; if it is set, submit() returns `cancelled`. Whoever
  // submits several steps checks it between them.
  void set_interrupt(const std::atomic<bool>* interrupt) { interrupt_ = interrupt; }
  bool interrupted() const { return interrupt_ && *interrupt_; }
  // A cautious guess of the seconds that a step of so many tokens takes.
  Result<double> guessed_step_seconds(uint32_t tokens);
  // Prepares steps of all sizes and makes the driver compile their kernels. Waits until that is done.
  // `threads` help the calling one, with drivers that compile when a pipeline is made. `progress` counts
  // kernels: each when its pipeline is made, and when it first runs.
  Status prepare_all(size_t threads = 0, const Progress& progress = {});

  // Runs one step like submit() and measures it. Returns the seconds of each dispatch of plan(tokens).
  Result<std::vector<double>> time_dispatches(uint32_t tokens);

  // Bytes of device memory that this runner has allocated.
  uint64_t device_bytes() const;
  // The plan of a step of up to this many tokens.
  Result<const Plan*> plan(uint32_t tokens);

private:
  // The places of a step's input and of its results; none: the runner's own memory.
  using StepPlaces = std::pair<std::optional<uint32_t>, std::optional<uint32_t>>;
  // The plan for steps of one size, and what is made from it.
  struct StepBucket {
    Plan plan;
    std::map<StepPlaces, Recording> recordings; // made by prepare()
    std::optional<StepCosts> costs;             // none until prepare()
  };

  Runner(std::shared_ptr<const Model> model, RunnerOptions options)
      : model_(std::move(model)), options_(std::move(options)) {}
  Status check_row(const StepToken& row) const;
  Status allocate(const RunnerLayout& layout);
  StepBucket& bucket_for(uint32_t tokens);
  PlanCopies copies(const Plan& plan) const;
  PlanCopies copies(const Plan& plan, const StepPlaces& places) const;
  Status prepare_in(uint32_t tokens, const StepPlaces& places);
  const Buffer& buffer_in(const BufferRef& ref, const StepPlaces& places) const;
  StepPlaces places() const { return {received_.place, sent_.place}; }
  std::vector<uint64_t> layout(const std::vector<HostTensor> Plan::*tensors, Space space) const;
  bool join(HopEnd& end, std::shared_ptr<HopBuffers> places) const;
  std::span<const std::byte> host_bytes(Space space) const;
  Status begin_stages();
  Result<Completion> submit_here(uint32_t tokens, uint32_t steps,
                                 const std::function<Status()>& before_sampling = {});
  Result<Completion> submit_in_stages(uint32_t tokens, uint32_t steps);
  Status open_in_stages(uint32_t tokens);
  Status open_arrived();
  Result<StepRows> next_rows(uint32_t tokens);
  // Writes words of the step block behind its rows, on all stages.
  Status write_words(size_t first, std::span<const uint32_t> words);
  void keep_words(size_t first, std::span<const uint32_t> words);
  Status keep_values(uint32_t row, std::span<const float> values);
  const HostTensor* encoder_values(const Plan& plan) const;
  const HostTensor* find_readable(const Plan& plan, const std::string& name) const;

  std::shared_ptr<const Model> model_;
  RunnerOptions options_;
  SessionMemory memory_;
  Graph graph_;
  std::map<uint32_t, StepBucket> buckets_; // by tokens
  std::shared_ptr<const Caches> caches_;
  Buffer step_, sampling_, scratch_, inputs_;
  std::vector<std::vector<uint32_t>> pages_; // of each sequence; empty: there are none
  std::optional<AdapterPlaces> adapters_;
  PlanOutputs outputs_;
  StepRing step_ring_;
  const std::atomic<bool>* interrupt_ = nullptr;
  StepBucket* open_ = nullptr;       // of the step that is being put into slices
  std::shared_ptr<CostTable> costs_; // of the step that was opened last; null: none
  size_t next_dispatch_ = 0;
  uint32_t reach_ = 0; // positions up to the last row of the step that was opened last
  Completion last_submission_;
  Completion submitted_here_;      // the last step on this device; with stages, others may not have arrived
  uint32_t last_tokens_ = 1;       // of the last submission
  std::vector<uint32_t> composed_; // with stages: the step block's beginning that write_step() wrote, if any
  std::vector<float> values_;      // of the composed step's inputs
  // Messages of the pieces of the step block that the other stages lack.
  std::vector<std::vector<uint32_t>> pieces_;
  HopEnd received_, sent_;
  std::unique_ptr<LastStage> last_stage_; // null: the model has no stages before its own
  std::optional<StagedStep> staged_step_; // the open step, until it is at the last stage
};

} // namespace pumice
