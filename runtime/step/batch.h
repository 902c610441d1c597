#pragma once

#include <deque>
#include <filesystem>
#include <list>
#include <memory>
#include <span>
#include <vector>

#include "io/mapped_file.h"
#include "kernel/sampling/sampling.h"
#include "step/runner.h"
#include "step/state_file.h"

namespace pumice {

// What is done when a session is made, so that it need not be done later.
enum class Preparation {
  none,      // a step's kernels are compiled when it first runs
  compiled,  // all kernels are compiled, each in a submission of its own
  warmed_up, // and steps have run in slices, whose times are known from the first one on
};

struct SessionOptions {
  SessionSize size; // size.sequences of them run at a time
  // Steps that are submitted before the host has read the tokens they start from. They keep the device busy
  // while the host looks at a token; those after a stop are thrown away.
  uint32_t steps_ahead = 2;
  // Steps of decoding that are submitted at once. Their tokens can be read when the last of them is done. 0:
  // one, and some more where steps are so small that nobody sees tokens come in groups.
  uint32_t steps_per_submit = 0;
  // Where each step's logits are copied, of the tokens in their order; steps then come one at a time.
  ExternalBuffer logits;
  // Of a Session alone.
  Preparation preparation = Preparation::none;
  // cancel() also ends a step of several submissions, of which no more than two are then under way at a time.
  bool interruptible = false;
};

// A text to go on from, and how.
struct SequenceRequest {
  std::vector<uint32_t> prompt;
  SamplingParams sampling;          // its stop tokens end the sequence
  uint32_t max_tokens = UINT32_MAX; // after the prompt
  std::optional<InputRange> input;  // of the encoder: what the text is about
};

enum class FinishReason { none, stop, length, context };

// A token that came out of a step. A sequence's last one says why it is that; a stop comes as a token too.
struct BatchToken {
  uint32_t sequence = 0; // what add() returned
  uint32_t token = 0;
  FinishReason finish_reason = FinishReason::none;
  TokenLogProbabilities log_probabilities; // where its sampling asks for them
};

// What is saved of a sequence beside its keys and values.
struct Conversation {
  std::vector<uint32_t> tokens;
  SamplingParams sampling;
};

// Sequences that share their steps: each with a prompt, sampling and stops of its own, each getting the same
// tokens as if it were alone. Sampling happens on the device and a step's tokens are the next step's inputs
// there, so while nothing changes the host only submits the same recording again and reads tokens behind it.
// When a sequence comes or goes, the steps in flight are read to the end and the next one is composed anew: a
// token of each sequence that is being continued, and as many of those prompts that are still being read as
// fit the chunk.
//
// A sequence runs in one of size().sequences slots of the caches; others wait until one is free. A slot keeps
// its keys and values when its sequence ends, and those of a prefix that the next prompt has in common with
// them are not computed again. Used by one thread at a time.
class Batch {
public:
  static Result<std::unique_ptr<Batch>> create(std::shared_ptr<const Model> model, SessionOptions options);

  // Whether add() would take it.
  Status check(const SequenceRequest& request) const;
  // Returns the sequence's id. The prompt has to fit the context with one position to spare.
  Result<uint32_t> add(SequenceRequest request);
  // Ends a sequence between steps. Nothing happens where it has ended already.
  Status drop(uint32_t id);
  // Waits for the steps in flight and forgets them, where they are about no sequence any more.
  Status drop_in_flight();
  // Ends it where steps may be left out, whose slices have been discarded.
  void abandon(uint32_t id);

  // The tokens of the next step, one for each sequence whose prompt has been read: none where that was of no
  // sequence, and once there are no sequences. Good until the next call.
  Result<std::span<const BatchToken>> step();
  // Submits steps, until `most` are in flight or what comes next depends on tokens that step() has not read.
  Status submit(size_t most);
  // Waits for the steps in flight, without reading them.
  Status wait() const;

  // The same in slices, of a batch of one sequence, in place of step() and submit() for as long as anything
  // is in flight. Puts what comes next into the slice that has been begun, as far as it fits.
  Status fill(TimeSlicer& slices);
  // The tokens of the next step that is known to have finished; none where none is.
  Result<std::span<const BatchToken>> collect();
  // Whether there are steps that have not been read.
  bool in_flight() const { return !in_flight_.empty(); }

  // Sequences that have been added and have not ended.
  size_t sequences() const { return sequences_.size(); }
  // Of a sequence that has not ended: tokens of its prompt that were there when it got its slot, and tokens
  // that are still to be submitted.
  uint32_t reused(uint32_t id) const;
  uint32_t unread(uint32_t id) const;

  // Writes a conversation to a file, with the keys and values that a slot without a sequence holds of its
  // beginning. load() puts those back, into any batch of the same model and cache type whose context the
  // conversation fits, for an add() to find. A file that is damaged or foreign changes nothing.
  Status save(const std::filesystem::path& path, uint32_t slot, const Conversation& conversation);
  Result<Conversation> load(const std::filesystem::path& path, uint32_t slot);
  // The same in the host's memory.
  Result<std::vector<std::byte>> save(uint32_t slot, const Conversation& conversation);
  Result<Conversation> load(MappedFile file, uint32_t slot);
  // Forgets a slot's keys and values.
  void forget(uint32_t slot) { slots_[slot].cached.clear(); }

  const SessionSize& size() const { return runner_->size(); }
  Runner& runner() { return *runner_; }
  // The host's own time for submitting steps that the device had put in place, and how many those were.
  double host_seconds() const { return host_seconds_; }
  uint64_t repeated_steps() const { return repeated_steps_; }

private:
  struct Sequence {
    uint32_t id = 0;
    std::vector<uint32_t> tokens; // the prompt, then what has been read
    SamplingParams sampling;
    std::optional<InputRange> input;
    uint32_t limit = 0; // tokens at which it ends
    int slot = -1;      // none yet
    uint32_t next = 0;  // position of the next row that is submitted
    uint32_t reused = 0;
    // Positions whose keys and values are sure to be there: those that have been submitted, but in slices
    // only those of steps that have been read. The others may be left out.
    uint32_t computed = 0;
  };
  // A sequence's place in the caches.
  struct Slot {
    std::vector<uint32_t> cached; // tokens whose keys and values are there, from position 0, once it is free
    uint32_t written_end = 0;     // after the last position that was ever written behind those
    bool busy = false;
  };

  // What can be submitted next.
  struct NextStep {
    uint32_t tokens = 0; // rows
    uint32_t steps = 1;  // of which each puts the next one in place
    bool composed = false;
    std::vector<uint32_t> counts = {}; // of a composed step: rows of each slot
  };
  struct Flight {
    std::optional<Completion> done; // none: it is not all in slices yet
    bool outputs = false;
    std::vector<std::pair<uint32_t, uint32_t>> reached = {}; // sequences, and their `next` after it
  };

  Batch(std::unique_ptr<Runner> runner, SessionOptions options)
      : runner_(std::move(runner)), options_(options), sampling_state_(runner_->sampling_memory()),
        slots_(runner_->size().sequences) {}
  const Sequence* find(uint32_t id) const;
  Status check_free(uint32_t slot) const;
  Snapshot snapshot(uint32_t slot, const Conversation& conversation) const;
  Status assign_slots();
  uint32_t reusable(const Slot& slot, std::span<const uint32_t> prompt) const;
  uint32_t repeatable_steps() const;
  bool can_compose() const;
  Result<std::optional<NextStep>> next_step(uint32_t most_steps);
  Result<NextStep> compose();
  Status launched(const NextStep& step, const std::optional<Completion>& done);
  void read_oldest();
  BatchToken read_token(Sequence& sequence);
  void release(Sequence& sequence);

  std::unique_ptr<Runner> runner_;
  SessionOptions options_;
  size_t most_sliced_steps_ = 0; // that the host has not read
  SamplingState sampling_state_;
  std::vector<Slot> slots_;
  std::list<Sequence> sequences_; // in the order they came
  std::vector<Sequence*> rows_;  // outputs of each step in flight that has any; null where the sequence ended
  std::deque<Flight> in_flight_; // steps that have not been read, in order
  std::vector<BatchToken> results_;
  bool changed_ = false; // the next step is not the one that the device has put in place
  uint32_t next_id_ = 0;
  double host_seconds_ = 0;
  uint64_t repeated_steps_ = 0;
};

} // namespace pumice
