#include "step/batch.h"

#include <algorithm>
#include <chrono>

#include <fmt/format.h>

#include "step/cache/snapshot.h"
#include "step/check_tokens.h"

namespace pumice {

namespace {

// Bytes that the steps of one submission read together, if steps_per_submit is 0: a few milliseconds even on
// a CPU.
constexpr double small_steps_bytes = 8 << 20;

// The most steps in slices whose tokens the host has not read. Steps after a stop token are wasted, so there
// are not many.
constexpr size_t sliced_steps = 8;

// The fewest tokens of a beginning for which a sequence waits, until another one has read them, or takes the
// slot of a much longer text.
constexpr uint32_t least_shared = 32;

uint32_t common_prefix(std::span<const uint32_t> a, std::span<const uint32_t> b) {
  return static_cast<uint32_t>(std::ranges::mismatch(a, b).in1 - a.begin());
}

bool has_bidirectional_pictures(const Model& model) {
  const std::optional<PictureTokens>& pictures = model.shape().pictures;
  return pictures && pictures->bidirectional;
}

bool has_places(const Model& model) {
  const std::optional<PictureTokens>& pictures = model.shape().pictures;
  return pictures && pictures->of_any_size();
}

// The rows of a picture that lie side by side with a position: the first of them, and the one after the last.
// Nothing if the position has none.
std::pair<uint32_t, uint32_t> picture_at(std::span<const uint32_t> tokens, uint32_t at) {
  uint32_t begin = at, end = at;
  while (begin > 0 && is_prompt_row(tokens[begin - 1])) --begin;
  while (end < tokens.size() && is_prompt_row(tokens[end])) ++end;
  return {begin, end};
}

// How many of `count` rows from `first` on a step may have, so that no picture is cut.
uint32_t rows_of_whole_pictures(std::span<const uint32_t> tokens, uint32_t first, uint32_t count) {
  const uint32_t next = first + count;
  if (next >= tokens.size() || !is_prompt_row(tokens[next])) return count;
  return std::max(picture_at(tokens, next).first, first) - first;
}

// Pictures that do not fit a step.
Status check_picture_rows(const SessionSize& size, std::span<const uint32_t> prompt, const Model& model) {
  const uint32_t most = size.chunk - std::min(size.sequences, size.chunk) + 1;
  for (uint32_t at = 0; at < prompt.size(); ++at) {
    const auto [begin, end] = picture_at(prompt, at);
    if (end - begin > most) {
      return Error{
          Code::invalid_argument,
          fmt::format("{}: {} rows of pictures lie side by side in the prompt, and a step has room for "
                      "{}: put a token between pictures, or use longer steps (--chunk)",
                      model.file().path(), end - begin, most)};
    }
    at = std::max(at, end);
  }
  return {};
}

// Checks the prompt's tokens, and that there are rows for those that are given.
Status check_given(const Model& model, const SequenceRequest& request) {
  const std::vector<uint32_t>& prompt = *request.tokens;
  const uint32_t vocabulary = model.shape().vocabulary;
  const auto count = static_cast<size_t>(std::ranges::count_if(prompt, is_prompt_row));
  if (count == 0 || !model.shape().pictures) return check_tokens(model, prompt, vocabulary);
  std::vector<uint32_t> others = prompt;
  std::erase_if(others, is_prompt_row);
  PUMICE_CHECK(check_tokens(model, others, vocabulary));
  const size_t numbers = request.embeddings ? request.embeddings->values.size() : 0;
  if (numbers == 0 || numbers % count != 0) {
    return Error{
        Code::invalid_argument,
        fmt::format("{}: the prompt has {} places for rows of pictures, and their rows have {} numbers",
                    model.file().path(), count, numbers)};
  }
  if (!model.shape().pictures->of_any_size()) return {};
  const std::vector<PatchGrid>& grids = request.embeddings->grids;
  uint64_t rows = 0;
  for (const PatchGrid& grid : grids) rows += grid.count();
  if (rows >= count && std::ranges::none_of(grids, [](const PatchGrid& grid) { return grid.count() == 0; }))
    return {};
  return Error{Code::invalid_argument,
               fmt::format("{}: the prompt has {} places for rows of pictures, and the sizes of its pictures "
                           "tell of {}",
                           model.file().path(), count, rows)};
}

Status check_request(const Model& model, const SessionSize& size, const SequenceRequest& request) {
  const std::vector<uint32_t>& prompt = *request.tokens;
  if (prompt.empty()) {
    return Error{Code::invalid_argument, "the prompt is empty: give at least one token"};
  }
  if (prompt.size() >= size.context) {
    return Error{Code::context_full,
                 fmt::format("the prompt of {} tokens does not fit the context of {}: it may have at most {}",
                             prompt.size(), size.context, size.context - 1)};
  }
  if (request.max_tokens == 0) {
    return Error{Code::invalid_argument, "no token is asked for: max_tokens must be at least 1"};
  }
  PUMICE_CHECK(check_given(model, request));
  if (has_bidirectional_pictures(model)) PUMICE_CHECK(check_picture_rows(size, prompt, model));
  return check_sampling(request.sampling);
}

// How many of `count` rows a step may have from a position on, so that it can be discarded halfway again and
// again and a text still gets on: from a checkpoint up to the one before the next, then one at a time.
uint32_t discardable_rows(uint32_t position, uint32_t count) {
  return position % StateLayout::interval ? 1 : std::min(count, StateLayout::interval - 1);
}

// Whether a text's adapter is one that the steps have room for.
Status check_adapter(const Runner& runner, const AdapterChoice& choice) {
  if (!choice.adapter) return {};
  if (!runner.adapters()) {
    return Error{
        Code::invalid_argument,
        fmt::format("{}: the text has an adapter, and there is no room for any", choice.adapter->path())};
  }
  PUMICE_CHECK(check_scale(choice.scale));
  return check_room(*choice.adapter, *runner.adapters());
}

// A state has no way back behind a guess that did not hold, and the host has to see which did.
Status check_drafts(const Model& model, const SessionOptions& options) {
  if (options.size.drafts == 0) return {};
  const auto refuse = [&](const char* why) {
    return Error{Code::unsupported, fmt::format("{}: tokens cannot be guessed at {}: leave --drafts out",
                                                model.file().path(), why)};
  };
  if (!model.shape().states.empty()) return refuse("by a model with recurrent layers");
  if (options.logits.buffer) return refuse("where the logits go to the application");
  return {};
}

// What the next token may be depends on more than the tokens before it.
bool can_draft(const SamplingParams& sampling) {
  return sampling.mirostat == 0 && sampling.dry_multiplier <= 0;
}

} // namespace

Result<std::unique_ptr<Batch>> Batch::create(std::shared_ptr<const Model> model, SessionOptions options) {
  PUMICE_CHECK(check_drafts(*model, options));
  RunnerOptions runner_options;
  runner_options.size = options.size;
  runner_options.adapters = options.adapters;
  if (options.logits.buffer) {
    runner_options.readable = {"logits"};
    runner_options.output = options.logits;
    options.steps_ahead = 0;
    options.steps_per_submit = 1;
  }
  PUMICE_TRY(std::unique_ptr<Runner> runner, Runner::create(std::move(model), std::move(runner_options)));
  const SessionSize& size = runner->size();
  if (size.sequences > size.chunk) {
    return Error{
        Code::invalid_argument,
        fmt::format("{} sequences at a time do not fit steps of at most {} tokens: a step needs room "
                    "for a token of each",
                    size.sequences, size.chunk)};
  }
  // The device stores the log-probabilities of the latest SAMPLING_REPORTS tokens only.
  options.steps_ahead = std::min(options.steps_ahead, SAMPLING_REPORTS - 2);
  if (runner->staged()) { // the host reads each token, to send it to the first stage
    options.steps_ahead = runner->steps_in_stages() - 1;
    options.steps_per_submit = 1;
  }
  if (options.steps_per_submit == 0) {
    PUMICE_TRY(const Plan* plan, runner->plan(1));
    options.steps_per_submit = static_cast<uint32_t>(std::clamp(small_steps_bytes / plan->bytes(), 1.0, 8.0));
  }
  options.steps_per_submit = std::min(options.steps_per_submit, SAMPLING_REPORTS - 1 - options.steps_ahead);
  std::unique_ptr<Batch> batch(new Batch(std::move(runner), options));
  batch->most_sliced_steps_ = options.logits.buffer || batch->runner_->staged() ? 1 : sliced_steps;
  if (size.drafts == 0) return batch;
  if (options.draft_model) {
    PUMICE_TRY(batch->model_drafter_,
               ModelDrafter::create(std::move(options.draft_model), batch->runner_->model(), size));
  }
  for (const Bucket& bucket : step_buckets(size, false)) {
    PUMICE_TRY(const double guess, batch->runner_->guessed_step_seconds(bucket.tokens));
    batch->draft_costs_.guess(bucket.tokens, guess);
  }
  return batch;
}

Result<uint32_t> Batch::add(SequenceRequest request) {
  if (!request.tokens) request.tokens = std::make_shared<std::vector<uint32_t>>(std::move(request.prompt));
  PUMICE_CHECK(check_request(runner_->model(), size(), request));
  PUMICE_CHECK(check_adapter(*runner_, request.adapter));
  Sequence sequence;
  sequence.id = next_id_++;
  sequence.text = std::move(request.tokens);
  const uint64_t limit = uint64_t{request.max_tokens} + sequence.tokens().size();
  sequence.limit = static_cast<uint32_t>(std::min<uint64_t>(limit, size().context));
  sequence.sampling = std::move(request.sampling);
  sequence.input = request.input;
  sequence.embeddings = std::move(request.embeddings);
  sequence.adapter = std::move(request.adapter);
  if (request.form.form) {
    const std::span<const uint32_t> tokens(sequence.tokens());
    PUMICE_TRY(SequenceForm form,
               SequenceForm::create(runner_->model(), request.form, sequence.sampling.stop_tokens, tokens,
                                    request.form_begin, options_.form_tables));
    if (form.holds()) sequence.form = std::move(form);
  }
  if (size().drafts > 0 && !sequence.form && can_draft(sequence.sampling)) sequence.drafter.emplace();
  if (has_places(runner_->model()) && sequence.embeddings)
    sequence.places = RotaryPlaces(sequence.tokens(), sequence.embeddings->grids);
  sequences_.push_back(std::move(sequence));
  changed_ = changed_ || std::ranges::any_of(slots_, [](const Slot& slot) { return !slot.busy; });
  return sequences_.back().id;
}

void Batch::stop_without_waiting(uint32_t id) {
  const auto found = std::ranges::find(sequences_, id, &Sequence::id);
  if (found == sequences_.end()) return;
  std::ranges::replace(rows_, &*found, static_cast<Sequence*>(nullptr));
  release(*found);
}

Status Batch::stop(uint32_t id) {
  if (!find(id)) return {};
  stop_without_waiting(id);
  if (std::ranges::any_of(rows_, [](const Sequence* row) { return row != nullptr; })) return {};
  return discard_in_flight();
}

Status Batch::discard_in_flight() {
  runner_->close_step();
  const Status status = wait();
  in_flight_.clear();
  return status;
}

Status Batch::stop_all() {
  while (!sequences_.empty()) stop_without_waiting(sequences_.front().id);
  return discard_in_flight();
}

bool Batch::discard_unfinished(const Slicer& slicer) {
  const std::optional<SliceNumber> last = slicer.last_kept();
  if (!last) return false;
  while (!in_flight_.empty() && !(in_flight_.back().done && in_flight_.back().done->done_with(*last))) {
    for (Sequence& sequence : sequences_) sequence.stopped_end = 0;
    for (const auto& [id, position] : in_flight_.back().next_positions) {
      for (Sequence& sequence : sequences_) {
        if (sequence.id == id) sequence.stopped_end = position;
      }
    }
    in_flight_.pop_back();
  }
  return true;
}

Status Batch::discard_steps() {
  runner_->close_step();
  const bool all_collected = in_flight_.empty();
  in_flight_.clear();
  rows_.clear();
  changed_ = true;
  for (Sequence& sequence : sequences_) {
    sequence.drafts.clear();
    if (sequence.slot < 0) continue;
    // The first step that stopped halfway is the only one that began.
    const uint32_t end = std::exchange(sequence.stopped_end, 0);
    const uint32_t at = sequence.computed;
    Slot& slot = slots_[static_cast<size_t>(sequence.slot)];
    slot.written_end = std::max(slot.written_end, sequence.next);
    const bool survives = StateLayout::survives(at, end ? end : at + 1);
    if (all_collected && !sequence.interrupted && survives) sequence.next = at;
    PUMICE_CHECK(place_again(sequence));
    if (sequence.next < at && !runner_->states().empty()) sequence.single_token_steps = true;
  }
  return {};
}

// Goes back to where a sequence can go on from, after steps that may not have run.
Status Batch::place_again(Sequence& sequence) {
  keep(sequence);
  sequence.interrupted = false;
  const uint32_t slot = static_cast<uint32_t>(sequence.slot);
  return place(sequence, slot, reusable(slots_[slot], sequence));
}

// Notes that some launches of a step may have run and others not: its states are then of no position.
void Batch::interrupt(const NextStep& step) {
  if (runner_->states().empty()) return;
  changed_ = true;
  for (Sequence& sequence : sequences_) {
    if (sequence.slot < 0) continue;
    const size_t slot = static_cast<size_t>(sequence.slot);
    sequence.interrupted = true;
    const uint32_t end = sequence.next + (step.composed ? step.counts[slot] : step.steps);
    slots_[slot].written_end = std::max(slots_[slot].written_end, end);
  }
}

const Batch::Sequence* Batch::find(uint32_t id) const {
  const auto found = std::ranges::find(sequences_, id, &Sequence::id);
  return found == sequences_.end() ? nullptr : &*found;
}

uint32_t Batch::reused(uint32_t id) const {
  const Sequence* sequence = find(id);
  return sequence ? sequence->reused : 0;
}

uint32_t Batch::unread(uint32_t id) const {
  const Sequence* sequence = find(id);
  if (!sequence) return 0;
  const uint32_t end = static_cast<uint32_t>(sequence->tokens().size());
  return end - std::min(sequence->next, end);
}

Status Batch::wait() const {
  const auto last = std::find_if(in_flight_.rbegin(), in_flight_.rend(),
                                 [](const InFlightStep& each) { return each.done; });
  return last == in_flight_.rend() ? Status() : last->done->wait();
}

Status Batch::fill(Slice& slice, size_t most_steps) {
  most_steps = std::min(most_steps, most_sliced_steps_);
  may_wait_ = false;
  while (runner_->step_open() || in_flight_.size() < most_steps) {
    if (!runner_->step_open()) {
      if (repeatable_steps() == 0) {
        PUMICE_TRY(const bool place_free, runner_->place_free());
        if (!place_free) return {};
        // The rows of pictures have one place, which the step before still reads, and so has what tells where
        // a sequence's rotary places are, and which adapter it has.
        const bool told = has_places(runner_->model()) || runner_->adapters();
        const auto reads_rows = [&](const Sequence& each) {
          return each.slot < 0 ? told || each.embeddings
                               : each.embeddings && each.next < each.tokens().size();
        };
        if (!in_flight_.empty() && std::ranges::any_of(sequences_, reads_rows)) return {};
      }
      PUMICE_TRY(const std::optional<NextStep> step, next_step(1));
      if (!step) return {};
      PUMICE_CHECK(runner_->open_step(step->tokens));
      PUMICE_CHECK(add_in_flight(*step, {}));
    }
    PUMICE_TRY(const std::optional<Completion> done, runner_->fill(slice));
    if (!done) return {};
    in_flight_.back().done = done;
  }
  return {};
}

Result<std::optional<std::span<const BatchToken>>> Batch::collect() {
  using Tokens = std::optional<std::span<const BatchToken>>;
  if (in_flight_.empty() || !in_flight_.front().done) return Tokens();
  PUMICE_TRY(const bool finished, in_flight_.front().done->finished());
  if (!finished) return Tokens();
  results_.clear();
  PUMICE_CHECK(read_oldest());
  return Tokens(results_);
}

Status Batch::wait_for_oldest() const {
  if (in_flight_.empty() || !in_flight_.front().done) return {};
  return in_flight_.front().done->wait();
}

Result<std::span<const BatchToken>> Batch::step() {
  results_.clear();
  const auto start = std::chrono::steady_clock::now();
  PUMICE_CHECK(submit_ahead());
  if (in_flight_.empty()) return std::span<const BatchToken>(results_);
  PUMICE_CHECK(wait_for_oldest());
  const std::chrono::duration<double> waited = std::chrono::steady_clock::now() - start;
  if (size().drafts > 0) { // nothing else asks what steps take
    const InFlightStep& oldest = in_flight_.front();
    if (!oldest.composed) draft_costs_.took_repeated(waited.count());
    if (oldest.timed_rows > 0) draft_costs_.took(oldest.timed_rows, waited.count());
  }
  PUMICE_CHECK(read_oldest());
  return std::span<const BatchToken>(results_);
}

Status Batch::read_oldest() {
  const InFlightStep oldest = std::move(in_flight_.front());
  in_flight_.pop_front();
  for (const auto& [id, position] : oldest.next_positions) {
    for (Sequence& sequence : sequences_) {
      if (sequence.id == id) sequence.computed = std::max(sequence.computed, position);
    }
  }
  if (!oldest.outputs) return {};
  bool by_model = false;
  for (Sequence*& row : rows_) {
    if (!row) continue;
    // The token behind a guess counts if the guess was what is sampled.
    const std::vector<uint32_t> drafts = std::exchange(row->drafts, {});
    size_t held = 0;
    for (;;) {
      PUMICE_TRY(BatchToken token, read_token(*row));
      const bool holds = held < drafts.size() && token.token == drafts[held];
      held += holds;
      results_.push_back(std::move(token));
      if (results_.back().finish_reason != FinishReason::none || !holds) break;
    }
    draft_counts_.guessed += drafts.size();
    draft_counts_.held += held;
    if (row->drafted_by_model && !drafts.empty()) {
      model_drafter_->learn(drafts.size(), held);
      by_model = true;
    }
    if (!drafts.empty()) forget_drafts(*row);
    if (results_.back().finish_reason != FinishReason::none) release(*std::exchange(row, nullptr));
  }
  if (model_drafter_ && !by_model) model_drafter_->rest();
  // What the device would go on with by itself is worth less than a guess.
  if (!changed_ && choose_drafts() > 0) changed_ = true;
  return {};
}

// After a step with guesses: goes back to the last token that was sampled behind one that holds.
void Batch::forget_drafts(Sequence& sequence) {
  const auto count = static_cast<uint32_t>(sequence.tokens().size());
  Slot& slot = slots_[static_cast<size_t>(sequence.slot)];
  slot.written_end = std::max(slot.written_end, sequence.next);
  sequence.next = sequence.computed = count - 1;
  sampling_state_.set_count(static_cast<uint32_t>(sequence.slot), count);
}

// How many tokens of each text the next step guesses at.
uint32_t Batch::choose_drafts() {
  if (size().drafts == 0) return 0;
  const double of_model = model_drafter_ && may_wait_ ? model_drafter_->chance() : 0;
  bool by_model = false;
  std::vector<double> chances;
  for (Sequence& sequence : sequences_) {
    if (sequence.slot < 0) continue;
    if (sequence.next + 1 < sequence.tokens().size()) return 0; // a prompt comes first
    double chance = 0;
    if (sequence.drafter && sequence.tokens().size() + 1 < sequence.limit) {
      sequence.drafter->follow(sequence.tokens());
      chance = std::max(sequence.drafter->chance(), of_model);
      sequence.drafted_by_model = of_model > sequence.drafter->chance();
      by_model = by_model || sequence.drafted_by_model;
    }
    chances.push_back(chance);
  }
  if (options_.always_draft) return size().drafts;
  if (chances.empty()) return 0;
  double each = 0;
  if (by_model) {
    const std::optional<double> measured = model_drafter_->seconds();
    each = measured ? *measured : draft_costs_.expected(model_drafter_->guessed_seconds());
  }
  return draft_costs_.count(chances, size().drafts, each);
}

// Guesses at the next tokens of the texts that go on.
Status Batch::draft(uint32_t most) {
  std::vector<Sequence*> by_model;
  std::vector<ModelDrafter::Text> texts;
  for (Sequence& sequence : sequences_) {
    if (sequence.slot < 0 || !sequence.drafter) continue;
    // The token at the limit is the last: none is guessed at behind it.
    const auto left = static_cast<uint32_t>(sequence.limit - sequence.tokens().size());
    const uint32_t possible = std::min(most, left - std::min(left, 1u));
    if (!sequence.drafted_by_model) {
      sequence.drafts = sequence.drafter->draft(possible);
    } else if (possible > 0) {
      by_model.push_back(&sequence);
      texts.push_back({sequence.tokens(), &sequence.sampling, possible});
    }
  }
  if (texts.empty()) return {};
  PUMICE_TRY(std::vector<std::vector<uint32_t>> drafts, model_drafter_->draft(texts));
  for (size_t i = 0; i < texts.size(); ++i) by_model[i]->drafts = std::move(drafts[i]);
  return {};
}

Result<BatchToken> Batch::read_token(Sequence& sequence) {
  const uint32_t slot = static_cast<uint32_t>(sequence.slot);
  const uint32_t n = static_cast<uint32_t>(sequence.tokens().size());
  BatchToken result{sequence.id, sampling_state_.token(slot, n), FinishReason::none, {}, sequence.reused};
  const Model& model = runner_->model();
  if (result.token >= model.shape().vocabulary) {
    return Error{
        Code::internal,
        fmt::format("{}: {} computed garbage: the token {}, which the model does not have. Use a newer "
                    "driver or another device",
                    model.file().path(), model.context().device->capabilities().name, result.token)};
  }
  if (sequence.sampling.log_probabilities) {
    result.log_probabilities = sampling_state_.log_probabilities(slot, n);
  }
  sequence.tokens().push_back(result.token);
  sequence.computed = std::max(sequence.computed, n); // the new token itself has not been computed yet
  if (sampling_state_.finished_at(slot) == n) {
    result.finish_reason = FinishReason::stop;
    return result;
  }
  if (sequence.form) PUMICE_CHECK(sequence.form->follow(sequence.tokens()));
  if (sequence.tokens().size() == sequence.limit) {
    result.finish_reason = sequence.limit < size().context ? FinishReason::length : FinishReason::context;
  }
  return result;
}

// Writes which tokens the next step may draw.
Status Batch::write_masks() {
  for (Sequence* row : rows_) {
    if (row->form) PUMICE_CHECK(row->form->write_mask(sampling_state_, static_cast<uint32_t>(row->slot)));
  }
  return {};
}

// Steps in flight may still write to the slot, but only after the positions that count as cached. No other
// sequence gets the slot before they are done.
void Batch::release(Sequence& sequence) {
  changed_ = true;
  if (sequence.slot >= 0) {
    keep(sequence);
    Slot& slot = slots_[static_cast<size_t>(sequence.slot)];
    slot.busy = false;
    slot.released = ++releases_;
    if (sequence.form) sequence.form->release(form_tables_);
    runner_->leave_adapter(static_cast<uint32_t>(sequence.slot));
  }
  sequences_.remove_if([&](const Sequence& each) { return &each == &sequence; });
}

// Notes what a sequence's slot holds.
void Batch::keep(const Sequence& sequence) {
  Slot& slot = slots_[static_cast<size_t>(sequence.slot)];
  slot.written_end = std::max(slot.written_end, sequence.next);
  const bool known = sequence.computed == sequence.next && !sequence.interrupted;
  slot.states.latest = known ? sequence.next : 0;
  const size_t cached = std::min<size_t>(sequence.tokens().size(), sequence.computed);
  slot.cached.assign(sequence.tokens().begin(),
                     sequence.tokens().begin() + static_cast<std::ptrdiff_t>(cached));
}

Status Batch::submit(size_t most) {
  may_wait_ = true;
  while (in_flight_.size() < most && !runner_->interrupted()) {
    PUMICE_TRY(const std::optional<NextStep> step, next_step(options_.steps_per_submit));
    if (!step) break;
    const auto start = std::chrono::steady_clock::now();
    const Result<Completion> done = runner_->submit(step->tokens, step->steps);
    if (!done.ok()) {
      interrupt(*step);
      return done.error();
    }
    PUMICE_CHECK(add_in_flight(*step, *done));
    if (step->composed) continue;
    host_seconds_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }
  return {};
}

// Prepares the next step for submission. Returns nothing if it depends on tokens that have not been read.
Result<std::optional<Batch::NextStep>> Batch::next_step(uint32_t most_steps) {
  if (const uint32_t steps = std::min(most_steps, repeatable_steps())) {
    PUMICE_CHECK(write_masks());
    return std::optional(NextStep{static_cast<uint32_t>(rows_.size()), steps});
  }
  if (!can_compose()) return std::optional<NextStep>();
  PUMICE_TRY(NextStep step, compose());
  PUMICE_CHECK(write_masks());
  return std::optional(std::move(step));
}

// How many further steps can run with the inputs that the device writes itself.
uint32_t Batch::repeatable_steps() const {
  if (changed_ || rows_.empty()) return 0;
  if (runner_->staged() && !in_flight_.empty()) return 0; // its rows are not known yet
  uint32_t steps = options_.steps_per_submit;
  // What the next token may be follows from the last one, which the host has to see.
  if (std::ranges::any_of(rows_,
                          [](const Sequence* row) { return row && row->form && !row->form->on_device(); })) {
    if (!in_flight_.empty()) return 0;
    steps = 1;
  }
  // The token at a sequence's limit is its last, so no step starts from it.
  for (const Sequence* row : rows_)
    steps = std::min(steps, row->limit - 1 - std::min(row->next, row->limit - 1));
  return steps;
}

// The host can compose a step only if it has read all tokens.
bool Batch::can_compose() const {
  return !sequences_.empty() && in_flight_.size() < runner_->steps_in_stages() &&
         std::ranges::none_of(in_flight_, &InFlightStep::outputs);
}

// Every sequence with a slot gets rows for tokens that were not submitted yet: one row if it is being
// continued; for a prompt as many rows as fit while each later sequence still gets one.
Result<Batch::NextStep> Batch::compose() {
  for (Sequence& sequence : sequences_) {
    if (sequence.interrupted) PUMICE_CHECK(place_again(sequence));
  }
  PUMICE_CHECK(assign_slots());
  changed_ = true; // until the step has been submitted
  rows_.clear();
  prompt_rows_.clear();
  std::vector<StepToken> rows;
  const bool whole = has_bidirectional_pictures(runner_->model());
  if (const uint32_t most_drafts = choose_drafts()) PUMICE_CHECK(draft(most_drafts));
  NextStep step;
  step.composed = step.continues = true;
  step.counts.resize(slots_.size());
  size_t others = static_cast<size_t>(std::ranges::count_if(slots_, &Slot::busy));
  for (Sequence& sequence : sequences_) {
    if (sequence.slot < 0) continue;
    const uint32_t slot = static_cast<uint32_t>(sequence.slot);
    const size_t room = size().chunk - rows.size() - --others;
    const size_t left = sequence.tokens().size() - sequence.next;
    uint32_t count = static_cast<uint32_t>(std::min(room, left));
    if (sequence.single_token_steps) count = discardable_rows(sequence.next, count);
    if (whole) count = rows_of_whole_pictures(sequence.tokens(), sequence.next, count);
    step.counts[slot] = count;
    const auto begin = sequence.tokens().begin() + sequence.next;
    auto number = static_cast<size_t>(std::count_if(sequence.tokens().begin(), begin, is_prompt_row));
    for (uint32_t at = sequence.next; at < sequence.next + count; ++at) {
      const uint32_t token = sequence.tokens()[at];
      if (is_prompt_row(token))
        prompt_rows_.push_back({static_cast<uint32_t>(rows.size()), &sequence, number++});
      rows.push_back({token, at, slot});
      const RotaryPlaces::Place place = sequence.places.at(at);
      rows.back().position_offset = sequence.places.lag() - place.lag;
      rows.back().down = place.down;
      rows.back().across = place.across;
      if (whole && is_prompt_row(token)) rows.back().end = picture_at(sequence.tokens(), at).second;
    }
    step.continues = step.continues && left == 1;
    if (count < left) continue;
    rows.back().output = true;
    rows_.push_back(&sequence);
    if (sequence.drafts.size() > room - count) sequence.drafts.resize(room - count);
    if (!sequence.drafter) continue;
    sampling_state_.set_drafts(slot, sequence.drafts);
    for (const uint32_t token : sequence.drafts) {
      StepToken row = rows.back();
      row.token = token;
      ++row.position;
      ++row.drafts;
      rows.push_back(row);
    }
    step.counts[slot] += static_cast<uint32_t>(sequence.drafts.size());
  }
  PUMICE_CHECK(runner_->write_step(rows));
  step.tokens = static_cast<uint32_t>(rows.size());
  PUMICE_CHECK(write_prompt_rows(step.tokens));
  return step;
}

// Writes the embeddings that the composed step of `rows` rows does not look up.
Status Batch::write_prompt_rows(uint32_t rows) {
  for (const PromptRow& each : prompt_rows_) {
    const std::vector<uint32_t>& tokens = each.sequence->tokens();
    if (!each.sequence->embeddings) {
      return Error{Code::invalid_argument, "a picture of the conversation has to be read again, and it is "
                                           "not there any more: begin a new one"};
    }
    const auto count = static_cast<size_t>(std::ranges::count_if(tokens, is_prompt_row));
    const size_t columns = each.sequence->embeddings->values.size() / count;
    const std::span<const float> all(each.sequence->embeddings->values);
    PUMICE_CHECK(runner_->write_input(rows, each.row, all.subspan(each.number * columns, columns)));
  }
  return {};
}

// Adds a step to those in flight: it was submitted and `done` tells when it is done, or it was opened for
// slices and has no `done` yet.
Status Batch::add_in_flight(const NextStep& step, const std::optional<Completion>& done) {
  InFlightStep added{done, !rows_.empty(), step.composed, step.continues ? step.tokens : 0};
  const auto advance = [&](Sequence& sequence, uint32_t rows) {
    sequence.next += rows;
    if (done) sequence.computed = sequence.next;
  };
  if (!step.composed) {
    for (Sequence* row : rows_) advance(*row, step.steps);
    in_flight_.insert(in_flight_.end(), step.steps, added);
    repeated_steps_ += step.steps;
    return {};
  }
  changed_ = waiting_;
  for (Sequence& sequence : sequences_) {
    if (sequence.slot < 0) continue;
    advance(sequence, step.counts[static_cast<size_t>(sequence.slot)]);
    added.next_positions.emplace_back(sequence.id, sequence.next);
    // After guesses, the host has to say which rows come next.
    changed_ = changed_ || sequence.next < sequence.tokens().size() || !sequence.drafts.empty();
  }
  in_flight_.push_back(std::move(added));
  // While the device works on this step, the host prepares the decoding that follows.
  return changed_ ? Status() : runner_->prepare(static_cast<uint32_t>(rows_.size()));
}

Status Batch::assign_slots() {
  waiting_ = false;
  for (Sequence& sequence : sequences_) {
    if (sequence.slot >= 0) continue;
    if (!runner_->has_place(sequence.adapter)) continue; // until another one's text ends
    const SharedPrefix prefix = may_wait_ ? shared_prefix(sequence) : SharedPrefix();
    Slot* best = nullptr;
    uint32_t best_worth = 0;
    for (Slot& slot : slots_) {
      if (slot.busy) continue;
      // A sequence with another encoder input has other keys and values.
      const uint32_t reused = sequence.input ? 0 : reusable(slot, sequence);
      // A few tokens that all texts begin with are not worth a text that may go on. Where nothing is, the
      // slot that was not used for longest goes.
      const uint32_t worth = reused >= least_shared || 2 * reused >= slot.cached.size() ? reused : 0;
      if (best && (worth < best_worth || (worth == best_worth && slot.released >= best->released))) continue;
      best = &slot;
      best_worth = worth;
      sequence.reused = reused;
    }
    if (!best) return {};
    const auto slot = static_cast<uint32_t>(best - slots_.data());
    if (prefix.tokens >= sequence.reused + least_shared) {
      waiting_ = waiting_ || !prefix.computed;
      if (!prefix.computed) continue;
      PUMICE_TRY(const bool copied, copy_prefix(prefix, slot));
      if (copied) sequence.reused = prefix.tokens;
    }
    PUMICE_CHECK(place(sequence, slot, sequence.reused));
  }
  return {};
}

// The longest beginning that a sequence with a slot has read or is about to read. States, pictures and an
// encoder's input are not shared.
Batch::SharedPrefix Batch::shared_prefix(const Sequence& sequence) const {
  SharedPrefix best;
  if (sequence.input || sequence.embeddings || runner_->staged() || !runner_->states().empty()) return best;
  const std::span<const uint32_t> prompt(sequence.tokens());
  for (const Sequence& other : sequences_) {
    if (other.slot < 0 || other.input || other.embeddings || other.adapter != sequence.adapter) continue;
    const uint32_t common = common_prefix(other.tokens(), prompt.first(prompt.size() - 1));
    const Slot& slot = slots_[static_cast<size_t>(other.slot)];
    const uint32_t written_end = std::max({slot.written_end, other.next, common}); // once it has read them
    if (common <= best.tokens || runner_->resume_point(common, written_end, {}) < common) continue;
    best = {&other, common, other.computed >= common};
  }
  return best;
}

// Gives a free slot what a sequence has in common with the one that is to begin there. False: they cannot be
// copied.
Result<bool> Batch::copy_prefix(const SharedPrefix& prefix, uint32_t slot) {
  const auto from = static_cast<uint32_t>(prefix.sequence->slot);
  const uint32_t written_end = std::max(slots_[from].written_end, prefix.sequence->next);
  if (runner_->resume_point(prefix.tokens, written_end, {}) < prefix.tokens) return false;
  forget(slot);
  PUMICE_TRY(const bool copied, copy_caches({*runner_, from}, {*runner_, slot}, prefix.tokens, written_end));
  if (copied) slots_[slot].written_end = written_end;
  return copied;
}

// Puts a sequence into a slot that holds its keys and values before the position `first`.
Status Batch::place(Sequence& sequence, uint32_t slot, uint32_t first) {
  sequence.next = sequence.computed = first;
  sequence.slot = static_cast<int>(slot);
  if (first == 0) {
    slots_[slot].written_end = 0;
    slots_[slot].states = {};
  }
  slots_[slot].busy = true;
  slots_[slot].cached.clear();
  slots_[slot].adapter = sequence.adapter;
  PUMICE_CHECK(runner_->set_adapter(slot, sequence.adapter));
  sampling_state_.set_params(slot, sequence.sampling);
  // Rows of pictures count as the token that stands for them.
  std::vector<uint32_t> tokens = sequence.tokens();
  if (const std::optional<PictureTokens>& pictures = runner_->model().shape().pictures) {
    std::ranges::replace_if(tokens, is_prompt_row, pictures->token);
  }
  sampling_state_.set_tokens(slot, tokens);
  if (sequence.form) sequence.form->place(sampling_state_, slot, form_tables_);
  if (slots_[slot].place_lag != sequence.places.lag()) {
    PUMICE_CHECK(runner_->set_place_lag(slot, sequence.places.lag()));
    slots_[slot].place_lag = sequence.places.lag();
  }
  return sequence.input ? runner_->set_input(slot, *sequence.input) : Status();
}

// How many leading tokens of a prompt need not be computed, because the slot holds their keys and values, and
// the states after them. The last token of the prompt is always computed, for its logits.
uint32_t Batch::reusable(const Slot& slot, const Sequence& sequence) const {
  if (slot.adapter != sequence.adapter) return 0;
  const std::span<const uint32_t> prompt(sequence.tokens());
  uint32_t common = common_prefix(slot.cached, prompt.first(prompt.size() - 1));
  if (!has_bidirectional_pictures(runner_->model()))
    return runner_->resume_point(common, slot.written_end, slot.states);
  for (;;) {
    const uint32_t first = runner_->resume_point(common, slot.written_end, slot.states);
    const uint32_t begin = picture_at(prompt, first).first;
    // The rows of a picture have seen all of it, so it has to be the same one up to its end.
    const bool same = first == begin || (!is_prompt_row(prompt[first]) &&
                                         (first >= slot.cached.size() || !is_prompt_row(slot.cached[first])));
    if (same) return first;
    common = begin;
  }
}

Status Batch::check_free(uint32_t slot) const {
  if (slot < slots_.size() && !slots_[slot].busy) return {};
  return Error{
      Code::invalid_argument,
      fmt::format("slot {} cannot be used: it must be one of the {} slots, and no sequence may run in it",
                  slot, slots_.size())};
}

// How many leading tokens of a conversation have keys and values in a slot. With states: as many as a session
// that gets only one of these states can go on from.
uint32_t Batch::kept(const Slot& slot, std::span<const uint32_t> tokens) const {
  const uint32_t common = common_prefix(slot.cached, tokens);
  return runner_->states().empty() ? common : runner_->resume_point(common, slot.written_end, slot.states);
}

Snapshot Batch::snapshot(uint32_t slot, const Conversation& conversation) const {
  const Slot& from = slots_[slot];
  Snapshot snapshot;
  snapshot.tokens = conversation.tokens;
  snapshot.sampling = conversation.sampling;
  if (from.adapter.adapter) return snapshot; // who restores it need not have that
  snapshot.cached = kept(from, conversation.tokens);
  snapshot.written_end = from.written_end;
  return snapshot;
}

Status Batch::save(const std::filesystem::path& path, uint32_t slot, const Conversation& conversation) {
  PUMICE_CHECK(check_free(slot));
  PUMICE_CHECK(wait());
  return save_snapshot(path, *runner_, slot, snapshot(slot, conversation));
}

Status Batch::save(const StateSink& sink, uint32_t slot, const Conversation& conversation) {
  PUMICE_CHECK(check_free(slot));
  PUMICE_CHECK(wait());
  return save_snapshot(sink, *runner_, slot, snapshot(slot, conversation));
}

Result<Conversation> Batch::load(const std::filesystem::path& path, uint32_t slot) {
  PUMICE_TRY(MappedFile file, MappedFile::open(path));
  return load(std::move(file), slot);
}

Result<Conversation> Batch::load(MappedFile file, uint32_t slot) {
  PUMICE_CHECK(check_free(slot));
  PUMICE_CHECK(wait());
  PUMICE_TRY(const OpenedSnapshot opened, open_snapshot(std::move(file), *runner_));
  forget(slot);
  PUMICE_CHECK(restore_caches(opened, *runner_, slot));
  const Snapshot& snapshot = opened.snapshot;
  slots_[slot].cached.assign(snapshot.tokens.begin(), snapshot.tokens.begin() + snapshot.cached);
  slots_[slot].adapter = {};
  slots_[slot].written_end = snapshot.written_end;
  slots_[slot].states = {snapshot.cached, snapshot.cached};
  return Conversation{snapshot.tokens, snapshot.sampling};
}

Status Batch::copy(uint32_t slot, const Batch& other, uint32_t other_slot, const Conversation& conversation) {
  PUMICE_CHECK(check_free(slot));
  PUMICE_CHECK(other.check_free(other_slot));
  PUMICE_CHECK(wait());
  PUMICE_CHECK(other.wait());
  const Slot& from = other.slots_[other_slot];
  const uint32_t cached = other.kept(from, conversation.tokens);
  forget(slot);
  PUMICE_TRY(const bool copied,
             copy_caches({*other.runner_, other_slot}, {*runner_, slot}, cached, from.written_end));
  if (!copied) return {};
  slots_[slot].cached.assign(conversation.tokens.begin(), conversation.tokens.begin() + cached);
  slots_[slot].adapter = from.adapter;
  slots_[slot].written_end = from.written_end;
  slots_[slot].states = {cached, cached};
  return {};
}

Status Batch::lend(uint32_t slot, std::span<const uint32_t> tokens, ContinuationScorer& scorer) const {
  PUMICE_CHECK(check_free(slot));
  PUMICE_CHECK(wait());
  if (slots_[slot].adapter != scorer.adapter()) return {};
  const uint32_t cached = kept(slots_[slot], tokens);
  return scorer.adopt({*runner_, slot}, tokens.first(cached), slots_[slot].written_end);
}

} // namespace pumice
