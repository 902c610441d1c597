#include "generate/session.h"

#include <algorithm>
#include <limits>

#include <fmt/format.h>

#include "step/warm_up.h"

namespace pumice {

namespace {

// How many of a conversation's tokens are rows of pictures.
size_t given_rows(std::span<const uint32_t> tokens) {
  return static_cast<size_t>(std::ranges::count_if(tokens, is_given));
}

} // namespace

Result<std::unique_ptr<Session>> Session::create(std::shared_ptr<const Model> model, SessionOptions options,
                                                 const Progress& progress) {
  options.size.sequences = 1;
  std::unique_ptr<Session> session(new Session(std::move(model), options));
  PUMICE_CHECK(session->make(progress));
  return session;
}

Session::~Session() {
  work_.end(batch_);
}

Status Session::make(const Progress& progress) {
  sequence_.reset();
  sliced_ = false;
  return work_.make(*model_, batch_, [&]() -> Status {
    PUMICE_TRY(std::unique_ptr<Batch> batch, Batch::create(model_, options_));
    if (options_.preparation != Preparation::none) {
      PUMICE_CHECK(batch->runner().prepare_all(options_.compiling_threads, progress));
    }
    if (options_.interruptible) batch->runner().set_interrupt(work_.interrupt());
    batch_ = std::move(batch);
    const bool warms_up = options_.preparation == Preparation::warmed_up && has_slices(*model_);
    return warms_up ? warm_up(*batch_, work_.slices()) : Status();
  });
}

Status Session::ready() {
  if (suspended_) return Error{Code::not_ready, "the session is suspended: resume it first"};
  return work_.broken() ? make() : Status();
}

Status Session::begin(GenerationRequest request) {
  PUMICE_CHECK(ready());
  Conversation conversation;
  if (!request.anew) conversation.tokens = conversation_.tokens;
  conversation.tokens.insert(conversation.tokens.end(), request.tokens.begin(), request.tokens.end());
  conversation.sampling = std::move(request.sampling);
  SharedEmbeddings given = request.given;
  if (!request.anew) given = joined(given_, given);
  PUMICE_CHECK(batch_->check({conversation.tokens, conversation.sampling, request.max_tokens, {}, given}));
  PUMICE_CHECK(work_.checked(stop()));
  work_.forget_cancel();
  received_.clear();
  reused_.reset();
  conversation_ = std::move(conversation);
  given_ = std::move(given);
  limit_ = conversation_.tokens.size() +
           std::min<size_t>(request.max_tokens, std::numeric_limits<size_t>::max() / 2);
  active_ = true;
  return {};
}

// Adds the sequence to the batch again if it was dropped; its keys and values are still in the cache.
Status Session::go_on() {
  if (sequence_) return {};
  SequenceRequest request{conversation_.tokens, conversation_.sampling, UINT32_MAX, {}, given_};
  request.max_tokens =
      static_cast<uint32_t>(std::min<size_t>(limit_ - conversation_.tokens.size(), UINT32_MAX));
  PUMICE_TRY(sequence_, batch_->add(std::move(request)));
  return {};
}

// Waits for the steps in flight and takes the sequence out of the batch. Steps that ran ahead are discarded;
// their entries in the cache lie after the conversation and are overwritten before anything reads them.
Status Session::stop() {
  if (!sequence_ && !batch_->in_flight()) return {};
  if (sliced_) {
    PUMICE_CHECK(work_.slices().wait());
    PUMICE_CHECK(collect());
  }
  if (!sequence_) return batch_->drop_in_flight();
  if (batch_->unread(*sequence_) < tokens().size()) note_reused(batch_->reused(*sequence_));
  return batch_->drop(*std::exchange(sequence_, std::nullopt));
}

// A sequence that is added again finds what this text has computed itself: the first number counts.
void Session::note_reused(uint32_t reused) {
  if (!reused_) reused_ = reused;
}

Status Session::use_slices(bool wanted) {
  if (sliced_ == wanted) return {};
  PUMICE_CHECK(stop());
  sliced_ = wanted;
  return {};
}

Status Session::check_cancelled() {
  if (!work_.cancelled()) return {};
  PUMICE_CHECK(stop());
  work_.forget_cancel();
  if (!active_) return {};
  active_ = false;
  return Error{Code::cancelled, "generating was cancelled"};
}

void Session::received(std::span<const BatchToken> tokens) {
  for (const BatchToken& token : tokens) {
    if (!sequence_ || token.sequence != *sequence_) continue;
    note_reused(token.reused);
    conversation_.tokens.push_back(token.token);
    received_.push_back(token);
    received_.back().reused = reused();
    if (token.finish_reason == FinishReason::none) continue;
    active_ = false;
    sequence_.reset();
  }
}

std::optional<BatchToken> Session::take() {
  if (received_.empty()) return {};
  BatchToken token = std::move(received_.front());
  received_.pop_front();
  return token;
}

Status Session::end() {
  PUMICE_CHECK(ready());
  PUMICE_CHECK(work_.checked(stop()));
  received_.clear();
  active_ = false;
  return {};
}

void Session::end_at(size_t tokens) {
  if (sequence_) batch_->finish(*std::exchange(sequence_, std::nullopt));
  const size_t rows = given_rows(conversation_.tokens);
  conversation_.tokens.resize(std::min(tokens, conversation_.tokens.size()));
  if (const size_t left = given_rows(conversation_.tokens); given_ && left < rows)
    given_ = first_rows(given_, left, rows);
  received_.clear();
  active_ = false;
}

// Handles an error of a whole step. cancel() ends the text; the context's interrupt has no end.
Status Session::failed(const Error& error) {
  const bool by_cancel = error.code == Code::cancelled && work_.cancelled();
  return work_.checked(by_cancel ? check_cancelled() : Status(error));
}

Status Session::step() {
  PUMICE_CHECK(ready());
  PUMICE_CHECK(work_.checked(check_cancelled()));
  if (!active_) return {};
  PUMICE_CHECK(work_.checked(use_slices(false)));
  PUMICE_CHECK(go_on());
  return run_step();
}

Status Session::run_step() {
  const Result<std::span<const BatchToken>> tokens = batch_->step();
  if (!tokens.ok()) return failed(tokens.error());
  received(*tokens);
  return {};
}

Status Session::prefill(std::span<const uint32_t> tokens, const SamplingParams& sampling,
                        const Progress& progress) {
  PUMICE_CHECK(begin({{tokens.begin(), tokens.end()}, false, UINT32_MAX, sampling, {}}));
  return read_prompt(progress);
}

Status Session::set_prompt(std::span<const uint32_t> tokens, const SamplingParams& sampling,
                           const Progress& progress, SharedEmbeddings given) {
  PUMICE_CHECK(begin({{tokens.begin(), tokens.end()}, true, UINT32_MAX, sampling, std::move(given)}));
  return read_prompt(progress);
}

Status Session::read_prompt(const Progress& progress) {
  PUMICE_CHECK(work_.checked(use_slices(false)));
  PUMICE_CHECK(go_on());
  Status submitted = batch_->submit(1);
  if (submitted.ok()) note_reused(batch_->reused(*sequence_));
  const uint64_t total = tokens().size() - reused();
  if (progress) (void)progress(0, total); // the caller is asked again after the first step
  while (submitted.ok()) {
    const uint32_t left = batch_->unread(*sequence_);
    if (left == 0) break;
    PUMICE_CHECK(work_.checked(check_cancelled()));
    PUMICE_CHECK(run_step());
    if (progress && !progress(total - left, total)) {
      PUMICE_CHECK(work_.checked(stop()));
      active_ = false;
      return Error{Code::cancelled, "reading the prompt was cancelled"};
    }
    submitted = batch_->submit(1);
  }
  if (!submitted.ok()) return failed(submitted.error());
  if (!progress) return {};
  PUMICE_CHECK(work_.checked(batch_->wait()));
  progress(total, total);
  return {};
}

Result<uint32_t> Session::next() {
  PUMICE_CHECK(ready());
  if (received_.empty() && !active_) {
    if (tokens().empty())
      return Error{Code::invalid_argument, "there is no prompt to continue: set one first"};
    if (full()) {
      return Error{Code::context_full, fmt::format("the context of {} tokens is full", size().context)};
    }
    PUMICE_CHECK(begin({{}, false, UINT32_MAX, conversation_.sampling, {}}));
  }
  while (received_.empty()) PUMICE_CHECK(step());
  return take()->token;
}

Result<SliceResult> Session::advance(double budget, const SubmitSync& sync) {
  PUMICE_CHECK(check_slices(*model_, "run the text to its end"));
  return work_.checked(slice(VK_NULL_HANDLE, budget, sync));
}

Result<SliceResult> Session::record(VkCommandBuffer into, double budget) {
  PUMICE_CHECK(check_slices(*model_, "run the text to its end"));
  if (!into)
    return Error{Code::invalid_argument, "the command buffer is NULL: give one that is being recorded"};
  return work_.checked(slice(into, budget, {}));
}

Result<SliceResult> Session::slice(VkCommandBuffer into, double budget, const SubmitSync& sync) {
  PUMICE_CHECK(ready());
  PUMICE_CHECK(use_slices(true));
  StageSlices& slices = work_.slices();
  PUMICE_CHECK(slices.look());
  PUMICE_CHECK(collect());
  PUMICE_CHECK(check_cancelled());
  if (active_) PUMICE_CHECK(go_on());
  const auto fill = [&] { return batch_->fill(slices); };
  SliceResult result;
  PUMICE_TRY(result.report, slices.run(active_ ? fill : std::function<Status()>(), budget, sync, into));
  if (active_) result.largest = batch_->runner().largest_dispatch(slices);
  result.active = active_;
  return result;
}

Status Session::collect() {
  for (;;) {
    PUMICE_TRY(const auto tokens, batch_->collect());
    if (!tokens) return {};
    received(*tokens);
  }
}

Status Session::discard() {
  PUMICE_CHECK(work_.discard_if_broken());
  PUMICE_CHECK(ready());
  if (!sliced_) return {};
  PUMICE_CHECK(work_.checked(work_.slices().look()));
  PUMICE_CHECK(work_.checked(collect()));
  const bool known = batch_->forget_discarded(work_.slices());
  work_.slices().discard();
  PUMICE_CHECK(work_.checked(work_.slices().wait()));
  if (known) PUMICE_CHECK(work_.checked(collect()));
  return work_.checked(batch_->abandon());
}

Status Session::reset() {
  PUMICE_CHECK(ready());
  PUMICE_CHECK(work_.checked(stop()));
  batch_->forget(0);
  conversation_ = {};
  given_.reset();
  active_ = false;
  received_.clear();
  return {};
}

// The rows of pictures are in no state file: without them, what is not in the caches cannot be computed.
Status Session::check_saves() const {
  if (given_rows(conversation_.tokens) == 0) return {};
  return Error{Code::unsupported,
               "the conversation shows pictures, and a saved session cannot hold their rows: keep the text "
               "and the pictures, and begin with them again"};
}

Status Session::save(const std::filesystem::path& path) {
  PUMICE_CHECK(check_saves());
  PUMICE_CHECK(ready());
  PUMICE_CHECK(work_.checked(stop()));
  PUMICE_CHECK(work_.checked(batch_->save(path, 0, conversation_)));
  active_ = false;
  return {};
}

Status Session::save(const StateSink& sink) {
  PUMICE_CHECK(check_saves());
  PUMICE_CHECK(ready());
  PUMICE_CHECK(work_.checked(stop()));
  PUMICE_CHECK(work_.checked(batch_->save(sink, 0, conversation_)));
  active_ = false;
  return {};
}

Status Session::restore(const std::filesystem::path& path) {
  PUMICE_TRY(MappedFile file, MappedFile::open(path));
  return restore(std::move(file));
}

Status Session::restore(MappedFile file) {
  PUMICE_CHECK(ready());
  PUMICE_CHECK(work_.checked(stop()));
  PUMICE_TRY(Conversation conversation, batch_->load(std::move(file), 0));
  conversation_ = std::move(conversation);
  given_.reset();
  active_ = false;
  received_.clear();
  return {};
}

// The conversation in the host's memory. A text that is being generated can go on.
Result<std::vector<std::byte>> Session::saved_bytes() {
  PUMICE_CHECK(ready());
  PUMICE_CHECK(work_.checked(stop()));
  std::vector<std::byte> bytes;
  const auto append = [&](std::span<const std::byte> more) -> Status {
    bytes.insert(bytes.end(), more.begin(), more.end());
    return {};
  };
  PUMICE_CHECK(work_.checked(batch_->save(append, 0, conversation_)));
  return bytes;
}

Status Session::copy(Session& other) {
  PUMICE_CHECK(ready());
  PUMICE_CHECK(work_.checked(stop()));
  PUMICE_CHECK(other.ready());
  PUMICE_CHECK(other.work_.checked(other.stop()));
  PUMICE_CHECK(work_.checked(batch_->copy(0, *other.batch_, 0, other.conversation_)));
  conversation_ = other.conversation_;
  given_ = other.given_;
  active_ = false;
  received_.clear();
  return {};
}

Status Session::suspend() {
  PUMICE_TRY(saved_, saved_bytes());
  work_.end(batch_);
  suspended_ = true;
  return {};
}

Status Session::resume(std::shared_ptr<const Model> model) {
  if (model->identity() != model_->identity()) {
    return Error{Code::invalid_argument,
                 fmt::format("{}: this is another model than the one that the session was made with, {}",
                             model->file().path(), model_->file().path())};
  }
  PUMICE_CHECK(work_.wait_before_end());
  model_ = std::move(model);
  PUMICE_CHECK(make());
  suspended_ = false;
  if (saved_.empty()) return {};
  const std::vector<std::byte> saved = std::exchange(saved_, {});
  const Result<Conversation> loaded =
      work_.checked(batch_->load(MappedFile::from_memory(saved, "the suspended session"), 0));
  return loaded.ok() ? Status() : Status(loaded.error());
}

} // namespace pumice
