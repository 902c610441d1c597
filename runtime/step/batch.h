#pragma once

#include <chrono>
#include <deque>
#include <filesystem>
#include <list>
#include <memory>
#include <span>
#include <vector>

#include "io/mapped_file.h"
#include "kernel/sampling/sampling.h"
#include "step/batch/row_turns.h"
#include "step/batch/step_pace.h"
#include "step/cache/page_pool.h"
#include "step/cache/position_shift.h"
#include "step/cache/state_file.h"
#include "step/continuation_scorer.h"
#include "step/drafts/draft_costs.h"
#include "step/drafts/layer_drafter.h"
#include "step/drafts/text_drafter.h"
#include "step/forms/form_tables.h"
#include "step/forms/sequence_form.h"
#include "step/prompt_embeddings.h"
#include "step/rotary_places.h"
#include "step/runner.h"

namespace pumice {

struct OpenedSnapshot; // step/cache/snapshot.h

// Work that is done when a session is created, instead of later.
enum class Preparation {
  none,      // a step's kernels are compiled when it first runs
  compiled,  // all kernels are compiled, each in a submission of its own
  warmed_up, // also, steps have run in slices, so that the costs of all dispatches are known
};

struct SessionOptions {
  SessionSize size; // size.sequences run at a time
  // Steps that are submitted before the host has read the token that they start from. They keep the device
  // busy while the host reads tokens; those after the end of a sequence are discarded.
  uint32_t steps_ahead = 2;
  // Decoding steps in one submission. Their tokens can be read when the last of them is done. 0: chosen
  // automatically: up to 8 for small models, whose steps are very short, otherwise 1.
  uint32_t steps_per_submit = 0;
  // With size.drafts: guesses at tokens also where that is not known to give more of them a second.
  bool always_draft = false;
  // With size.drafts: a smaller model of the same vocabulary on the same device, or the model's own
  // prediction layer (Tower::prediction), which guesses too. Not while steps run in slices, because guesses
  // are waited for.
  std::shared_ptr<const Model> draft_model = {};
  // The device follows forms by itself where it can. Without that, each step of a text with a form waits for
  // the token before it, and its tokens are the same.
  bool form_tables = true;
  // Tokens that a form followed by the host leaves no choice of are not drawn, but computed together with the
  // next one that is. The text is the same.
  bool forced_tokens = true;
  // What the texts' adapters may be; null: they have none.
  std::shared_ptr<const AdapterRoom> adapters = {};
  // Not 0: while texts go on, the prompts of others are read in pieces that take them no longer than so many
  // seconds, by what steps took, or of one token each.
  double max_stall_seconds = 0;
  // Where a prompt leaves out a part of what a slot holds, what is behind it is kept, see PositionShift. Not
  // while steps run in slices. An error where positions cannot be shifted.
  bool shift_positions = false;
  // Not 0: so many texts at most have a token in a step, and the others wait in turn.
  uint32_t most_texts = 0;
  // If given, each step copies the logits of its outputs there, and steps are submitted one at a time.
  ExternalBuffer logits;
  // Used by BatchWork only.
  Preparation preparation = Preparation::none;
  // BatchWork::cancel() also ends a step of several submissions in the middle. At most two submissions are
  // then in flight.
  bool interruptible = false;
  size_t compiling_threads = 0; // that compile kernels beside the calling one
};

// A prompt, and how to continue it.
struct SequenceRequest {
  std::vector<uint32_t> prompt;
  SamplingParams sampling;          // its stop tokens end the sequence
  uint32_t max_tokens = UINT32_MAX; // after the prompt
  std::optional<InputRange> input;  // the encoder input that the cross-attention reads
  // The embeddings of the prompt's tokens with the bit PROMPT_ROW, one after the other. Such tokens are equal
  // only where their rows are.
  SharedEmbeddings embeddings = {};
  // If set, the prompt is there, and each token that is sampled is added to it.
  std::shared_ptr<std::vector<uint32_t>> tokens = {};
  // The form of what follows the first `form_begin` tokens. Its text ends with a stop token. Where its table
  // is too large for the device, each step waits for the token before it.
  TextForm form = {};
  size_t form_begin = 0;
  AdapterChoice adapter = {}; // as SessionOptions::adapters has room for
};

enum class FinishReason { none, stop, length, context };

// A token that a step has sampled. The last token of a sequence has a finish reason; a stop token is reported
// as well.
struct BatchToken {
  uint32_t sequence = 0; // what add() returned
  uint32_t token = 0;
  FinishReason finish_reason = FinishReason::none;
  TokenLogProbabilities log_probabilities; // if its sampling asks for them
  uint32_t reused = 0;                     // tokens of its text's prompt that were in the cache already
};

// The state of a sequence that is saved beside its keys and values.
struct Conversation {
  std::vector<uint32_t> tokens;
  SamplingParams sampling;
  SharedEmbeddings embeddings; // the rows of its pictures; null: it shows none
};

// Sequences that run in the same steps. Each has its own prompt, sampling and stop tokens, and gets the same
// tokens as if it ran alone. Sampling runs on the device and writes the inputs of the next step there. So
// while the set of sequences stays the same, the host only submits the same recording again and reads the
// tokens later. When a sequence is added or ends, all steps in flight are read first, and the host composes
// the next step: one token of each sequence that is being continued, and as many prompt tokens of the other
// sequences as fit the chunk, or the time that the texts that are continued may wait. Where a step of fewer
// texts gives clearly more tokens a second, some texts wait for a step, in turn (RowTurns).
//
// A sequence runs in one of size().sequences slots of the caches; further sequences wait until a slot is
// free. When a sequence ends, its slot keeps the keys and values. If a later prompt begins with the same
// tokens, those are not computed again, up to the last position that a state was kept of if the model has
// states, and if they were computed with the same adapter. Nor are those that it has in common with a
// sequence that runs: it waits until that one has read them, and gets a copy. With size().pages it has the
// same pages instead, of which it copies the one that it goes on in. Then a sequence waits, too, until there
// are pages for all that it may become; and a text whose slot another one takes is kept, until its pages are
// needed and it was not used for longest. Used by one thread at a time.
class Batch {
public:
  static Result<std::unique_ptr<Batch>> create(std::shared_ptr<const Model> model, SessionOptions options);

  // Returns the sequence's id. The prompt has to fit the context with one position to spare.
  Result<uint32_t> add(SequenceRequest request);
  // Ends a sequence between steps. Does nothing if it has ended already.
  Status stop(uint32_t id);
  // The same without waiting, as if its last token had been a stop token: the steps in flight go on, and what
  // they sample is thrown away.
  void stop_without_waiting(uint32_t id);
  // Waits for the steps in flight and discards them. Only when no sequence needs them any more.
  Status discard_in_flight();
  // Ends all sequences.
  Status stop_all();
  // Before slices are discarded: discards the steps in flight that will not run to their end. The others can
  // be collected once they have. False, and nothing is discarded, if it is not known which these are.
  bool discard_unfinished(const Slicer& slicer);
  // Discards the steps in flight after slices were. Sequences go on after what has been collected.
  // Only when no slice is under way.
  Status discard_steps();

  // Waits for the next step and returns its tokens: one for each sequence whose prompt is complete and whose
  // turn it is; possibly none, and always none without sequences. Valid until the next call.
  Result<std::span<const BatchToken>> step();
  // Submits steps until `most` are in flight, or until the next step depends on tokens that step() has not
  // read, or until the runner is interrupted.
  Status submit(size_t most);
  // The same, as many as step() submits.
  Status submit_ahead() { return submit(1 + size_t{options_.steps_ahead}); }
  // Waits for the steps in flight, without reading them.
  Status wait() const;

  // The same in slices. Do not mix it with step() and submit() while steps are in flight. Puts the next
  // dispatches into the current slice, as many as fit. Begins no step while `most_steps` are in flight.
  Status fill(Slice& slice, size_t most_steps = SIZE_MAX);
  // The tokens of the next step, possibly none, if it is known to have finished; otherwise nothing. Does not
  // wait.
  Result<std::optional<std::span<const BatchToken>>> collect();
  // Waits for the oldest step in flight, unless some of it is in no slice yet.
  Status wait_for_oldest() const;
  // Whether there are submitted steps whose tokens have not been read.
  bool in_flight() const { return !in_flight_.empty(); }

  // The number of sequences that were added and have not ended.
  size_t sequences() const { return sequences_.size(); }
  // Of a sequence that has not ended: tokens of its prompt that were in its slot already, and tokens that
  // have not been submitted yet.
  uint32_t reused(uint32_t id) const;
  uint32_t unread(uint32_t id) const;

  // Writes a conversation to a file, with the keys and values of its beginning that a free slot holds. load()
  // puts them into a free slot again, so that a later add() finds them. The batch must have the same model
  // and cache type, and a context that the conversation fits. A damaged or foreign file is an error and
  // changes nothing. Keys and values that were computed with an adapter are not saved.
  Status save(const std::filesystem::path& path, uint32_t slot, const Conversation& conversation);
  Result<Conversation> load(const std::filesystem::path& path, uint32_t slot);
  Result<Conversation> load(MappedFile file, uint32_t slot);
  // The same elsewhere than in a file.
  Status save(const StateSink& sink, uint32_t slot, const Conversation& conversation);
  // The same of any slot that has most of the conversation, also one that its sequence runs in: that goes on.
  Status save(const std::filesystem::path& path, const Conversation& conversation);
  Status save(const StateSink& sink, const Conversation& conversation);
  // The slot that a new conversation would take; none: all are busy.
  std::optional<uint32_t> free_slot() const;
  // As load() with that slot. Without one, keys and values are not restored, and the conversation is as good.
  Result<Conversation> load(MappedFile file);
  // Gives a free slot the keys and values of a conversation that a free slot of another batch has, which is
  // on the same device and has the same model and cache type. They are copied on the device, or computed
  // again where their places differ (see copy_caches()).
  Status copy(uint32_t slot, const Batch& other, uint32_t other_slot, const Conversation& conversation);
  // Gives a scorer of the same model what a free slot holds of these tokens, in the same way. Nothing if that
  // was computed with another adapter than the scorer's.
  Status lend(uint32_t slot, std::span<const uint32_t> tokens, ContinuationScorer& scorer) const;
  // Forgets a slot's keys and values.
  void forget(uint32_t slot) { slots_[slot].cached.clear(); }

  const SessionSize& size() const { return runner_->size(); }
  // Pages of the pool that sequences with a slot have, those that several have once.
  uint32_t busy_pages() const { return pool_.pages() - obtainable_pages({}); }
  Runner& runner() { return *runner_; }
  // The host's seconds for submitting steps that the device had written itself, and the number of those
  // steps.
  double host_seconds() const { return host_seconds_; }
  uint64_t repeated_steps() const { return repeated_steps_; }
  // Tokens that steps have guessed at, and how many of them held.
  struct DraftCounts {
    uint64_t guessed = 0, held = 0;
  };
  const DraftCounts& drafts() const { return draft_counts_; }
  // Decoding steps in one submission, the last one of a text aside. Their tokens come together.
  uint32_t steps_per_submit() const { return options_.steps_per_submit; }

private:
  struct Sequence {
    uint32_t id = 0;
    std::shared_ptr<std::vector<uint32_t>> text; // the prompt, then what has been read
    std::vector<uint32_t>& tokens() const { return *text; }
    SamplingParams sampling;
    std::optional<InputRange> input;
    std::optional<SequenceForm> form;
    AdapterChoice adapter;
    SharedEmbeddings embeddings;
    RotaryPlaces places; // of a decoder whose pictures have any size
    uint32_t limit = 0;  // length in tokens, prompt included, at which it ends
    int slot = -1;       // -1: none yet
    uint32_t next = 0;   // position of the next row to submit
    uint32_t reused = 0;
    // Positions whose keys and values are certain to be in the cache: all submitted ones; in slices, only
    // those of steps that have been read, because other steps may be discarded.
    uint32_t computed = 0;
    std::optional<TextDrafter> drafter; // where its tokens are guessed at
    bool drafted_by_model = false;      // the next guesses, or those of the step in flight
    std::vector<uint32_t> drafts;       // that the step in flight guesses at
    bool refused = false;               // a guess behind them does not fit the form
    uint32_t forced = 0;                // the latest tokens, which were not drawn
    bool interrupted = false;           // a step of it was not submitted as a whole
    uint32_t stopped_end = 0;           // of the first step that was discarded; 0: none, or it had one row
    bool single_token_steps = false;    // no step of it may lose the states that it begins with
    bool rests = false;                 // the next step, or the one in flight, is without it
    uint64_t had_turn = 0;              // the number of its last turn
  };
  // A sequence's place in the caches.
  struct Slot {
    std::vector<uint32_t> cached; // of a free slot: tokens whose keys and values it holds, from position 0
    uint32_t written_end = 0;     // after the last position that was ever written in the slot
    StateHistory states;
    AdapterChoice adapter;  // with which they were computed
    uint32_t place_lag = 0; // that the runner was told
    bool busy = false;
    uint64_t released = 0;       // the number of the release that made it free; 0: none
    std::vector<uint32_t> pages; // of its positions, in order, where there is a pool
  };

  // The next step to submit.
  struct NextStep {
    uint32_t tokens = 0;               // rows
    uint32_t steps = 1;                // steps in one submission; each writes the next one on the device
    bool composed = false;             // by the host, not written by the device's sampling
    std::vector<uint32_t> counts = {}; // of a composed step: number of rows of each slot
    bool continues = false;            // it only continues texts
  };
  struct PromptRow {
    uint32_t row = 0;
    const Sequence* sequence = nullptr;
    size_t number = 0; // among those of its prompt
  };
  // The rows of a text in the step that was composed last.
  struct TextRows {
    uint32_t id = 0, first = 0, count = 0, position = 0; // the first one's number and position
  };
  struct InFlightStep {
    std::optional<Completion> done; // none: some of it is in no slice yet
    bool outputs = false;
    bool composed = false;
    uint32_t timed_rows = 0; // of a step that only continues texts; 0 of another one
    uint32_t rows = 0;
    // When its rows were known, of a step that had nothing to wait for.
    std::optional<std::chrono::steady_clock::time_point> begun = {};
    std::vector<std::pair<uint32_t, uint32_t>> next_positions =
        {}; // of a composed step: ids of sequences, and their `next` after it
  };

  Batch(std::unique_ptr<Runner> runner, SessionOptions options)
      : runner_(std::move(runner)), options_(options), sampling_state_(runner_->sampling_state()),
        form_tables_(sampling_state_.tables()), slots_(runner_->size().sequences),
        pool_(runner_->size().pages), pace_(options_.max_stall_seconds) {}
  const Sequence* find(uint32_t id) const;
  Status check_free(uint32_t slot) const;
  Snapshot snapshot(uint32_t slot, const Conversation& conversation) const;
  uint32_t slot_with(const Conversation& conversation);
  Status restore(const OpenedSnapshot& opened, uint32_t slot);
  uint32_t kept(const Slot& slot, std::span<const uint32_t> tokens) const;
  Status assign_slots();
  // A text in the pool whose slot another one has.
  struct KeptText {
    std::vector<uint32_t> tokens, pages;
    AdapterChoice adapter;
    uint64_t used = 0; // among the releases, when it was last used
  };
  // What a sequence that runs, or a text that is kept, has in common with a sequence that begins.
  struct SharedPrefix {
    const Sequence* sequence = nullptr; // none: there is nothing, or a kept text has it
    KeptText* kept = nullptr;
    uint32_t tokens = 0;
    bool computed = false; // all of it
  };
  SharedPrefix shared_prefix(const Sequence& sequence);
  Result<bool> copy_prefix(const SharedPrefix& prefix, uint32_t slot);
  Result<bool> take_pages(Sequence& sequence, uint32_t slot, const SharedPrefix* prefix);
  Result<bool> renew_pages(uint32_t slot, uint32_t positions);
  uint32_t obtainable_pages(std::span<const uint32_t> held) const;
  void evict_text(uint32_t slot);
  Status close_gap(uint32_t slot, Sequence& sequence);
  Status place(Sequence& sequence, uint32_t slot, uint32_t first);
  Status place_again(Sequence& sequence);
  void interrupt(const NextStep& step);
  void keep(const Sequence& sequence);
  uint32_t reusable(const Slot& slot, const Sequence& sequence) const;
  uint32_t repeatable_steps() const;
  bool can_compose() const;
  Result<std::optional<NextStep>> next_step(uint32_t most_steps);
  uint32_t most_rows() const;
  uint32_t next_rows(const Sequence& sequence, size_t room, size_t most) const;
  Result<NextStep> compose();
  void prepare_turns();
  size_t next_texts(size_t texts);
  bool fewer_are_faster() { return may_wait_ && next_texts(rows_.size()) < rows_.size(); }
  void take_turns();
  Status prepare_drafts(std::shared_ptr<const Model> draft_model);
  uint32_t choose_drafts();
  Status draft(uint32_t most);
  void follow_hidden(const Sequence& sequence, bool composed);
  Status hand_hidden(const Sequence& sequence, bool composed);
  void forget_drafts(Sequence& sequence);
  void keep_to_form(Sequence& sequence);
  Status write_prompt_rows(uint32_t rows);
  bool masks_by_host() const;
  Status write_masks();
  void append_forced_tokens();
  uint32_t room_beside_forced(size_t rows) const;
  void append_forced(Sequence*& row, std::span<const uint32_t> tokens);
  Status add_in_flight(const NextStep& step, const std::optional<Completion>& done);
  Status read_oldest();
  Result<BatchToken> read_token(Sequence& sequence);
  FinishReason full(const Sequence& sequence) const;
  void release(Sequence& sequence);

  std::unique_ptr<Runner> runner_;
  SessionOptions options_;
  size_t most_sliced_steps_ = 0; // most steps in slices whose tokens the host has not read
  SamplingState sampling_state_;
  FormTables form_tables_;
  std::vector<Slot> slots_;
  PagePool pool_;           // of no pages: each slot has memory of its own
  bool only_pages_ = false; // nothing of a text is elsewhere
  std::list<KeptText> kept_texts_;
  std::list<Sequence> sequences_; // in the order of add()
  // Of the step that is composed: its rows with PROMPT_ROW, with the sequence and the number there.
  std::vector<PromptRow> prompt_rows_;
  std::vector<Sequence*> rows_; // the sequence of each output of the steps in flight; null if it has ended
  bool may_wait_ = false;       // whole steps are run: the host may wait for copies and for guesses
  std::optional<PositionShift> shift_; // if positions are shifted
  StepPace pace_;
  std::optional<RowTurns> turns_; // none: each text has a row in each step
  uint64_t turns_taken_ = 0;
  std::chrono::steady_clock::time_point composed_; // when the last step was that the host composed
  DraftCosts draft_costs_;
  std::unique_ptr<Drafter> model_drafter_; // null: there is no such model
  LayerDrafter* layer_drafter_ = nullptr;  // the same, if it is a prediction layer
  std::string hidden_name_;                // of what that reads
  std::vector<TextRows> text_rows_;        // only with a prediction layer
  DraftCounts draft_counts_;
  std::deque<InFlightStep> in_flight_; // submitted steps whose tokens have not been read, oldest first
  std::vector<BatchToken> results_;
  bool changed_ = false;        // the host must compose the next step
  bool waiting_ = false;        // a sequence for what another one reads
  bool drafter_failed_ = false; // the prediction layer, which guesses no more
  uint32_t next_id_ = 0;
  uint64_t releases_ = 0;
  double host_seconds_ = 0;
  uint64_t repeated_steps_ = 0;
};

} // namespace pumice
