#include "generate/session.h"

#include <algorithm>
#include <limits>

#include <fmt/format.h>

namespace pumice {

namespace {

// How many of a conversation's tokens are rows of pictures.
size_t prompt_rows(std::span<const uint32_t> tokens) {
  return static_cast<size_t>(std::ranges::count_if(tokens, is_prompt_row));
}

} // namespace

Result<std::unique_ptr<Session>> Session::create(std::shared_ptr<const Model> model, SessionOptions options,
                                                 const Progress& progress) {
  options.size.sequences = 1;
  std::unique_ptr<Session> session(new Session(std::move(model), std::move(options)));
  PUMICE_CHECK(session->make(progress));
  return session;
}

Status Session::make_object(const Progress& progress) {
  sequence_.reset();
  scorer_.reset();
  return BatchWork::make_object(progress);
}

Status Session::ready() {
  if (suspended_) return Error{Code::not_ready, "the session is suspended: resume it first"};
  return BatchWork::ready();
}

Status Session::begin(GenerationRequest request) {
  PUMICE_CHECK(ready());
  auto tokens = std::make_shared<std::vector<uint32_t>>();
  if (!request.new_conversation) *tokens = *tokens_;
  tokens->insert(tokens->end(), request.tokens.begin(), request.tokens.end());
  SharedEmbeddings embeddings =
      request.new_conversation ? request.embeddings : joined(embeddings_, request.embeddings);
  AdapterChoice adapter = request.adapter.value_or(adapter_);
  // If the batch refuses it, the text so far goes on.
  PUMICE_TRY(const uint32_t added, object_->add({{},
                                                 request.sampling,
                                                 request.max_tokens,
                                                 {},
                                                 embeddings,
                                                 tokens,
                                                 request.form,
                                                 tokens->size(),
                                                 adapter}));
  if (Status stopped = checked(stop()); !stopped.ok()) {
    object_->stop_without_waiting(added);
    return stopped;
  }
  forget_cancel();
  received_.clear();
  reused_.reset();
  sequence_ = added;
  form_ = std::move(request.form);
  form_begin_ = tokens->size();
  limit_ = tokens->size() + std::min<size_t>(request.max_tokens, std::numeric_limits<size_t>::max() / 2);
  tokens_ = std::move(tokens);
  sampling_ = std::move(request.sampling);
  embeddings_ = std::move(embeddings);
  adapter_ = std::move(adapter);
  active_ = true;
  return {};
}

// Adds the sequence to the batch again if it was dropped; its keys and values are still in the cache.
Status Session::go_on() {
  if (sequence_) return {};
  const auto left = static_cast<uint32_t>(std::min<size_t>(limit_ - tokens_->size(), UINT32_MAX));
  PUMICE_TRY(sequence_,
             object_->add({{}, sampling_, left, {}, embeddings_, tokens_, form_, form_begin_, adapter_}));
  return {};
}

// Waits for the steps in flight and takes the sequence out of the batch. Steps that ran ahead are discarded;
// their entries in the cache lie after the conversation and are overwritten before anything reads them.
Status Session::stop() {
  if (!sequence_ && !object_->in_flight()) return {};
  PUMICE_CHECK(wait_for_slices());
  if (!sequence_) return object_->discard_in_flight();
  if (object_->unread(*sequence_) < tokens().size()) note_reused(object_->reused(*sequence_));
  return object_->stop(*std::exchange(sequence_, std::nullopt));
}

// The same, if it can be used.
Status Session::stop_text() {
  PUMICE_CHECK(ready());
  return checked(stop());
}

// A sequence that is added again finds what this text has computed itself: the first number counts.
void Session::note_reused(uint32_t reused) {
  if (!reused_) reused_ = reused;
}

Result<bool> Session::end() {
  PUMICE_CHECK(stop());
  return std::exchange(active_, false);
}

void Session::receive(const BatchToken& token) {
  if (!sequence_ || token.sequence != *sequence_) return;
  note_reused(token.reused);
  received_.push_back(token);
  received_.back().reused = reused();
  if (token.finish_reason == FinishReason::none) return;
  active_ = false;
  sequence_.reset();
}

Status Session::end_text() {
  PUMICE_CHECK(stop_text());
  received_.clear();
  active_ = false;
  return {};
}

void Session::end_at(size_t tokens) {
  if (sequence_) object_->stop_without_waiting(*std::exchange(sequence_, std::nullopt));
  const size_t rows = prompt_rows(*tokens_);
  tokens_->resize(std::min(tokens, tokens_->size()));
  if (const size_t left = prompt_rows(*tokens_); embeddings_ && left < rows)
    embeddings_ = first_rows(embeddings_, left, rows);
  received_.clear();
  active_ = false;
}

Status Session::step() {
  PUMICE_CHECK(ready());
  PUMICE_CHECK(checked(check_cancelled()));
  if (active_) PUMICE_CHECK(checked(use_whole_steps()));
  if (!active_) return {};
  PUMICE_CHECK(go_on());
  return run_whole_step();
}

Status Session::prefill(std::span<const uint32_t> tokens, const SamplingParams& sampling,
                        const Progress& progress, TextForm form) {
  PUMICE_CHECK(begin({{tokens.begin(), tokens.end()}, false, UINT32_MAX, sampling, {}, std::move(form)}));
  return read_prompt(progress);
}

Status Session::set_prompt(std::span<const uint32_t> tokens, const SamplingParams& sampling,
                           const Progress& progress, SharedEmbeddings embeddings, TextForm form) {
  PUMICE_CHECK(begin(
      {{tokens.begin(), tokens.end()}, true, UINT32_MAX, sampling, std::move(embeddings), std::move(form)}));
  return read_prompt(progress);
}

Status Session::read_prompt(const Progress& progress) {
  PUMICE_CHECK(checked(use_whole_steps()));
  PUMICE_CHECK(go_on());
  Status submitted = object_->submit(1);
  if (submitted.ok()) note_reused(object_->reused(*sequence_));
  const uint64_t total = tokens().size() - reused();
  if (progress) (void)progress(0, total); // the caller is asked again after the first step
  while (submitted.ok()) {
    const uint32_t left = object_->unread(*sequence_);
    if (left == 0) break;
    PUMICE_CHECK(checked(check_cancelled()));
    PUMICE_CHECK(run_whole_step());
    if (progress && !progress(total - left, total)) {
      PUMICE_CHECK(checked(stop()));
      active_ = false;
      return Error{Code::cancelled, "reading the prompt was cancelled"};
    }
    submitted = object_->submit(1);
  }
  if (!submitted.ok()) return ended(std::move(submitted));
  if (!progress) return {};
  PUMICE_CHECK(checked(object_->wait()));
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
    PUMICE_CHECK(begin({{}, false, UINT32_MAX, sampling_, {}}));
  }
  while (received_.empty()) PUMICE_CHECK(step());
  return take()->token;
}

Status Session::fill(Slice& slice) {
  PUMICE_CHECK(go_on());
  return BatchWork::fill(slice);
}

Status Session::reset() {
  PUMICE_CHECK(stop_text());
  object_->forget(0);
  return restore(Conversation());
}

Status Session::set_adapter(AdapterChoice adapter) {
  PUMICE_CHECK(stop_text());
  active_ = false;
  adapter_ = std::move(adapter);
  return {};
}

Status Session::save(const std::filesystem::path& path) {
  PUMICE_CHECK(stop_text());
  PUMICE_CHECK(checked(object_->save(path, 0, conversation())));
  active_ = false;
  return {};
}

Status Session::save(const StateSink& sink) {
  PUMICE_CHECK(stop_text());
  PUMICE_CHECK(checked(object_->save(sink, 0, conversation())));
  active_ = false;
  return {};
}

Status Session::restore(const std::filesystem::path& path) {
  PUMICE_TRY(MappedFile file, MappedFile::open(path));
  return restore(std::move(file));
}

Status Session::restore(MappedFile file) {
  PUMICE_CHECK(stop_text());
  PUMICE_TRY(Conversation conversation, object_->load(std::move(file), 0));
  return restore(std::move(conversation));
}

// Goes on with another conversation.
Status Session::restore(Conversation conversation) {
  tokens_ = std::make_shared<std::vector<uint32_t>>(std::move(conversation.tokens));
  sampling_ = std::move(conversation.sampling);
  embeddings_ = std::move(conversation.embeddings);
  active_ = false;
  received_.clear();
  return {};
}

// The conversation in the host's memory. A text that is being generated can go on.
Result<std::vector<std::byte>> Session::saved_bytes() {
  PUMICE_CHECK(stop_text());
  std::vector<std::byte> bytes;
  const auto append = [&](std::span<const std::byte> more) -> Status {
    bytes.insert(bytes.end(), more.begin(), more.end());
    return {};
  };
  PUMICE_CHECK(checked(object_->save(append, 0, conversation())));
  return bytes;
}

Status Session::copy(Session& other) {
  PUMICE_CHECK(stop_text());
  PUMICE_CHECK(other.stop_text());
  PUMICE_CHECK(checked(object_->copy(0, *other.object_, 0, other.conversation())));
  PUMICE_CHECK(restore(other.conversation()));
  if (options_.adapters) adapter_ = other.adapter_;
  return {};
}

Status Session::copy_to(ResumableBatch& batch) {
  PUMICE_CHECK(stop_text());
  return batch.adopt(*object_, 0, conversation());
}

// A scorer for continuations of so many tokens, with the tokens before them. Where there is no room for
// several sequences, one has to do.
Status Session::make_scorer(size_t longest, uint32_t sequences) {
  if (scorer_ && scorer_->size().context >= longest && scorer_->size().sequences >= sequences &&
      scorer_->adapter() == adapter_)
    return {};
  scorer_.reset(); // its memory is free for the next one
  constexpr uint32_t step = 256;
  SessionSize wanted = size();
  wanted.context =
      static_cast<uint32_t>(std::min<size_t>(wanted.context, (longest + step - 1) / step * step));
  wanted.sequences = sequences;
  Result<std::unique_ptr<ContinuationScorer>> made = ContinuationScorer::create(model_, wanted, adapter_);
  if (!made.ok() && sequences > 1 && made.error().code == Code::out_of_memory) {
    wanted.sequences = 1;
    made = ContinuationScorer::create(model_, wanted, adapter_);
  }
  PUMICE_TRY(scorer_, std::move(made));
  if (options_.interruptible) scorer_->runner().set_interrupt(interrupt());
  return {};
}

Result<ContinuationScores> Session::score(std::span<const std::vector<uint32_t>> continuations,
                                          uint32_t together) {
  PUMICE_CHECK(ready());
  if (tokens().empty())
    return Error{Code::invalid_argument, "the conversation is empty: there is nothing to continue"};
  if (prompt_rows(tokens()) > 0) {
    return Error{Code::unsupported,
                 "the conversation shows pictures, and continuations are scored after text alone"};
  }
  if (continuations.empty()) return ContinuationScores();
  size_t longest = 0;
  for (const std::vector<uint32_t>& each : continuations) longest = std::max(longest, each.size());
  longest += tokens().size(); // one more than is computed
  if (longest > size().context + size_t{1}) {
    return Error{Code::context_full,
                 fmt::format("the conversation of {} tokens and a continuation of {} do not fit the context "
                             "of {}",
                             tokens().size(), longest - tokens().size(), size().context)};
  }
  PUMICE_CHECK(checked(check_cancelled()));
  PUMICE_CHECK(stop_text());
  const auto sequences = static_cast<uint32_t>(std::min<size_t>(together, continuations.size()));
  PUMICE_CHECK(make_scorer(longest, std::max(sequences, 1u)));
  const std::span<const uint32_t> all = tokens();
  PUMICE_CHECK(object_->lend(0, all.first(all.size() - 1), *scorer_));
  Result<ContinuationScores> scores = scorer_->score(all, continuations);
  if (!scores.ok() && scores.error().code == Code::cancelled) {
    forget_cancel();
    return Error{Code::cancelled, "scoring was cancelled"};
  }
  return checked(std::move(scores));
}

Status Session::suspend() {
  PUMICE_TRY(saved_, saved_bytes());
  scorer_.reset();
  free();
  suspended_ = true;
  return {};
}

Status Session::resume(std::shared_ptr<const Model> model) {
  if (model->identity() != model_->identity()) {
    return Error{Code::invalid_argument,
                 fmt::format("{}: this is another model than the one that the session was made with, {}",
                             model->file().path(), model_->file().path())};
  }
  PUMICE_CHECK(wait_before_end());
  // One that was loaded on another device cannot guess any more.
  if (options_.draft_model && options_.draft_model->context().device != model->context().device)
    options_.draft_model.reset();
  model_ = std::move(model);
  PUMICE_CHECK(make());
  suspended_ = false;
  if (saved_.empty()) return {};
  const std::vector<std::byte> saved = std::exchange(saved_, {});
  const Result<Conversation> loaded =
      checked(object_->load(MappedFile::from_memory(saved, "the suspended session"), 0));
  return loaded.ok() ? Status() : Status(loaded.error());
}

} // namespace pumice
