#include "step/batch.h"

#include <algorithm>
#include <chrono>
#include <ctime>

#include <fmt/format.h>

#include "step/batch/checks.h"
#include "step/batch/whole_pictures.h"

namespace pumice {

namespace {

// Bytes that the steps of one submission read together, if steps_per_submit is 0: a few milliseconds even on
// a CPU.
constexpr double small_steps_bytes = 8 << 20;

// The most steps in slices whose tokens the host has not read. Steps after a stop token are wasted, so there
// are not many.
constexpr size_t sliced_steps = 8;

bool has_places(const Model& model) {
  const std::optional<PictureTokens>& pictures = model.shape().pictures;
  return pictures && pictures->has_places();
}

// How many of `count` rows a step may have from a position on, so that it can be discarded halfway again and
// again and a text still gets on: from a checkpoint up to the one before the next, then one at a time.
uint32_t discardable_rows(uint32_t position, uint32_t count) {
  return position % StateLayout::interval ? 1 : std::min(count, StateLayout::interval - 1);
}

} // namespace

Result<std::unique_ptr<Batch>> Batch::create(std::shared_ptr<const Model> model, SessionOptions options) {
  PUMICE_CHECK(check_drafts(*model, options));
  if (model->options().tower == Tower::prediction) {
    return Error{Code::invalid_argument,
                 model->file().path() + ": only the layer that guesses at tokens was loaded, which cannot go "
                                        "on with a text: load the model itself"};
  }
  RunnerOptions runner_options;
  if (options.shift_positions) options.size.pages = 0; // what others have too does not move
  runner_options.size = options.size;
  runner_options.adapters = options.adapters;
  if (options.logits.buffer) {
    runner_options.readable = {"logits"};
    runner_options.output = options.logits;
    options.steps_ahead = 0;
    options.steps_per_submit = 1;
  }
  if (options.draft_model && options.draft_model->options().tower == Tower::prediction)
    runner_options.readable = {LayerDrafter::hidden_name(*model)};
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
  batch->only_pages_ = size.pages > 0 && batch->runner_->states().empty() &&
                       std::ranges::all_of(batch->runner_->caches(), [](const CacheRef& cache) {
                         return cache.layout.pages > 0 || cache.layout.kv_heads == 0;
                       });
  if (size.drafts > 0) PUMICE_CHECK(batch->prepare_drafts(std::move(options.draft_model)));
  if (options.shift_positions) {
    PUMICE_TRY(batch->shift_, PositionShift::create(*batch->runner_));
  }
  batch->prepare_turns();
  if (!batch->pace_.limited()) return batch;
  for (const Bucket& bucket : step_buckets(size, false)) {
    PUMICE_TRY(const double guess, batch->runner_->guessed_step_seconds(bucket.tokens));
    batch->pace_.guess(bucket.tokens, guess);
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
  sequence.had_turn = turns_taken_;
  if (request.form.form) {
    const std::span<const uint32_t> tokens(sequence.tokens());
    PUMICE_TRY(SequenceForm form,
               SequenceForm::create(runner_->model(), request.form, sequence.sampling.stop_tokens, tokens,
                                    request.form_begin, options_.form_tables));
    if (form.holds()) sequence.form = std::move(form);
  }
  if (size().drafts > 0 && can_draft(sequence.sampling)) sequence.drafter.emplace();
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
    const bool survives = StateLayout::survives(at, end ? end : at + 1, size().drafts);
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
  const uint32_t first = reusable(slots_[slot], sequence);
  const auto written =
      std::span<const uint32_t>(slots_[slot].pages)
          .subspan(std::min<size_t>(first / cache_page_positions, slots_[slot].pages.size()));
  if (std::ranges::none_of(written, [&](uint32_t page) { return pool_.shared(page); }))
    return place(sequence, slot, first);
  // Others read these pages: it begins again in a slot.
  slots_[slot].busy = false;
  slots_[slot].released = ++releases_;
  runner_->leave_adapter(slot);
  sequence.slot = -1;
  sequence.next = sequence.computed = 0;
  return {};
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
        // a sequence's rotary places are, which adapter it has, and which pages.
        const bool told = (has_places(runner_->model()) || runner_->adapters() || pool_.pages() > 0) &&
                          std::ranges::any_of(slots_, [](const Slot& slot) { return !slot.busy; });
        const auto reads_rows = [&](const Sequence& each) {
          return each.slot < 0 ? told || each.embeddings
                               : each.embeddings && each.next < each.tokens().size();
        };
        if (!in_flight_.empty() && std::ranges::any_of(sequences_, reads_rows)) return {};
      }
      PUMICE_TRY(const std::optional<NextStep> step, next_step(1));
      if (!step) return {};
      PUMICE_CHECK(write_masks());
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
  const std::clock_t clock = std::clock();
  PUMICE_CHECK(submit_ahead());
  if (in_flight_.empty()) return std::span<const BatchToken>(results_);
  PUMICE_CHECK(wait_for_oldest());
  const std::chrono::duration<double> waited = std::chrono::steady_clock::now() - start;
  if (size().drafts > 0) { // nothing else asks what steps take
    const InFlightStep& oldest = in_flight_.front();
    if (!oldest.composed) draft_costs_.took_repeated(waited.count());
    if (oldest.timed_rows > 0) draft_costs_.took(oldest.timed_rows, waited.count());
  }
  if (turns_) {
    const InFlightStep& oldest = in_flight_.front();
    const uint32_t rows = oldest.composed ? oldest.timed_rows : oldest.rows;
    if (rows > 0) turns_->took(rows, static_cast<double>(std::clock() - clock) / CLOCKS_PER_SEC);
  }
  PUMICE_CHECK(read_oldest());
  return std::span<const BatchToken>(results_);
}

Status Batch::read_oldest() {
  const InFlightStep oldest = std::move(in_flight_.front());
  in_flight_.pop_front();
  if (oldest.begun) {
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - *oldest.begun;
    pace_.took(oldest.rows, took.count());
  }
  for (const auto& [id, position] : oldest.next_positions) {
    for (Sequence& sequence : sequences_) {
      if (sequence.id == id) sequence.computed = std::max(sequence.computed, position);
    }
  }
  if (oldest.composed) { // of those whose prompts go on
    for (const Sequence& sequence : sequences_) {
      if (std::ranges::find(rows_, &sequence) == rows_.end()) follow_hidden(sequence, true);
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
    const size_t guessed = drafts.size() + row->refused;
    if (row->drafted_by_model && guessed > 0) {
      model_drafter_->learn(guessed, held);
      by_model = true;
    }
    row->refused = false;
    if (!drafts.empty()) forget_drafts(*row);
    follow_hidden(*row, oldest.composed);
    if (results_.back().finish_reason != FinishReason::none) release(*std::exchange(row, nullptr));
  }
  append_forced_tokens();
  if (model_drafter_ && !by_model) model_drafter_->rest();
  // What the device would go on with by itself is worth less than a guess, or than fewer texts at a time.
  if (!changed_ && choose_drafts() > 0) changed_ = true;
  if (!changed_ && fewer_are_faster()) changed_ = true;
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
  sequence.forced = 0;
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
  result.finish_reason = full(sequence);
  return result;
}

// Why a text ends that has got a token, if it does.
FinishReason Batch::full(const Sequence& sequence) const {
  if (sequence.tokens().size() < sequence.limit) return FinishReason::none;
  return sequence.limit < size().context ? FinishReason::length : FinishReason::context;
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
    runner_->leave_adapter(static_cast<uint32_t>(sequence.slot));
  }
  if (sequence.form) sequence.form->release(form_tables_);
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
    // The host finds out what may be drawn while the device computes.
    std::function<Status()> before_sampling;
    if (masks_by_host()) before_sampling = [this] { return write_masks(); };
    const Result<Completion> done = runner_->submit(step->tokens, step->steps, before_sampling);
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
  if (const uint32_t steps = std::min(most_steps, repeatable_steps()))
    return std::optional(NextStep{static_cast<uint32_t>(rows_.size()), steps});
  if (!can_compose()) return std::optional<NextStep>();
  PUMICE_TRY(NextStep step, compose());
  return std::optional(std::move(step));
}

// How many further steps can run with the inputs that the device writes itself.
uint32_t Batch::repeatable_steps() const {
  if (changed_ || rows_.empty()) return 0;
  if (runner_->staged() && !in_flight_.empty()) return 0; // its rows are not known yet
  // The next step would write over what a prediction layer reads of a composed one.
  if (layer_drafter_ && may_wait_ && !in_flight_.empty() && in_flight_.back().composed) return 0;
  uint32_t steps = options_.steps_per_submit;
  // What the next token may be follows from the last one, which the host has to see.
  if (masks_by_host()) {
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

// The most rows of the next step: fewer than a chunk where texts that go on would wait too long for them.
uint32_t Batch::most_rows() const {
  uint32_t texts = 0;
  bool goes_on = false;
  for (const Sequence& sequence : sequences_) {
    if (sequence.slot < 0) continue;
    ++texts;
    goes_on = goes_on || sequence.next + 1 == sequence.tokens().size();
  }
  return goes_on ? pace_.rows(texts, size().chunk) : size().chunk;
}

// How many rows a sequence gets in a step that has room for so many, or for `most` without a limit of time.
uint32_t Batch::next_rows(const Sequence& sequence, size_t room, size_t most) const {
  const std::span<const uint32_t> tokens(sequence.tokens());
  const size_t left = tokens.size() - sequence.next;
  auto count = static_cast<uint32_t>(std::min(room, left));
  if (sequence.single_token_steps) count = discardable_rows(sequence.next, count);
  if (!has_bidirectional_pictures(runner_->model())) return count;
  count = rows_of_whole_pictures(tokens, sequence.next, count);
  if (count > 0) return count;
  // A picture is read at once, however long that takes.
  return rows_of_whole_pictures(tokens, sequence.next, static_cast<uint32_t>(std::min(most, left)));
}

// Every sequence with a slot gets rows for tokens that were not submitted yet: one row if it is being
// continued; for a prompt as many rows as fit while each later sequence still gets one.
Result<Batch::NextStep> Batch::compose() {
  for (Sequence& sequence : sequences_) {
    if (sequence.interrupted) PUMICE_CHECK(place_again(sequence));
  }
  PUMICE_CHECK(assign_slots());
  composed_ = std::chrono::steady_clock::now();
  changed_ = true; // until the step has been submitted
  rows_.clear();
  prompt_rows_.clear();
  text_rows_.clear();
  std::vector<StepToken> rows;
  const bool whole = has_bidirectional_pictures(runner_->model());
  if (const uint32_t most_drafts = choose_drafts()) PUMICE_CHECK(draft(most_drafts));
  take_turns();
  NextStep step;
  step.composed = step.continues = true;
  step.counts.resize(slots_.size());
  const size_t most = most_rows();
  size_t others = static_cast<size_t>(std::ranges::count_if(slots_, &Slot::busy));
  for (Sequence& sequence : sequences_) {
    if (sequence.slot < 0) continue;
    const uint32_t slot = static_cast<uint32_t>(sequence.slot);
    const size_t most_room = size().chunk - rows.size() - --others;
    const size_t taken = rows.size() + others;
    const size_t room = most > taken ? most - taken : 1;
    const size_t left = sequence.tokens().size() - sequence.next;
    const uint32_t count = sequence.rests ? 0 : next_rows(sequence, room, most_room);
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
    if (layer_drafter_)
      text_rows_.push_back({sequence.id, static_cast<uint32_t>(rows.size()) - count, count, sequence.next});
    step.continues = step.continues && left == 1;
    if (count < left) {
      sequence.drafts.clear();
      continue;
    }
    rows.back().output = true;
    rows_.push_back(&sequence);
    const size_t spare = room - std::min<size_t>(room, count);
    if (sequence.drafts.size() > spare) sequence.drafts.resize(spare);
    if (!sequence.drafter) continue;
    if (sequence.form) keep_to_form(sequence);
    sampling_state_.set_drafts(slot, sequence.drafts);
    for (const uint32_t token : sequence.drafts) {
      StepToken row = rows.back();
      row.token = token;
      ++row.position;
      ++row.drafts;
      rows.push_back(row);
    }
    step.counts[slot] += static_cast<uint32_t>(sequence.drafts.size());
    if (layer_drafter_) text_rows_.back().count = step.counts[slot];
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
  InFlightStep added{done, !rows_.empty(), step.composed, step.continues ? step.tokens : 0, step.tokens};
  if (pace_.limited() && step.composed && in_flight_.empty()) added.begun = composed_;
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
  changed_ = changed_ || fewer_are_faster();
  in_flight_.push_back(std::move(added));
  // While the device works on this step, the host prepares the decoding that follows.
  return changed_ ? Status() : runner_->prepare(static_cast<uint32_t>(rows_.size()));
}

// Puts a sequence into a slot that holds its keys and values before the position `first`.
Status Batch::place(Sequence& sequence, uint32_t slot, uint32_t first) {
  sequence.next = sequence.computed = first;
  sequence.slot = static_cast<int>(slot);
  if (first == 0) {
    slots_[slot].written_end = 0;
    slots_[slot].states = {};
  }
  if (layer_drafter_) layer_drafter_->place(slot, sequence.tokens());
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

} // namespace pumice
