#include "generate/session.h"

#include <fmt/format.h>

namespace pumice {

Result<std::unique_ptr<Session>> Session::create(std::shared_ptr<const Model> model, SessionOptions options) {
  options.size.sequences = 1;
  PUMICE_TRY(std::unique_ptr<Batch> batch, Batch::create(std::move(model), options));
  return std::unique_ptr<Session>(new Session(std::move(batch)));
}

// Leaves the sequence's keys and values in its slot. Steps that ran ahead are thrown away; their entries in
// the cache lie beyond the conversation and are overwritten before anything can see them.
Status Session::pause() {
  if (!sequence_) return {};
  return batch_->drop(*std::exchange(sequence_, std::nullopt));
}

Status Session::reset() {
  PUMICE_CHECK(pause());
  batch_->forget(0);
  conversation_ = {};
  return {};
}

Status Session::begin(Conversation conversation) {
  PUMICE_TRY(uint32_t sequence, batch_->add({conversation.tokens, conversation.sampling, UINT32_MAX}));
  PUMICE_CHECK(pause());
  sequence_ = sequence;
  conversation_ = std::move(conversation);
  return {};
}

Status Session::prefill(std::span<const uint32_t> tokens, const SamplingParams& sampling,
                        const Progress& progress) {
  Conversation conversation{conversation_.tokens, sampling};
  conversation.tokens.insert(conversation.tokens.end(), tokens.begin(), tokens.end());
  PUMICE_CHECK(begin(std::move(conversation)));
  return read_prompt(progress);
}

Status Session::set_prompt(std::span<const uint32_t> tokens, const SamplingParams& sampling,
                           const Progress& progress) {
  PUMICE_CHECK(begin({{tokens.begin(), tokens.end()}, sampling}));
  return read_prompt(progress);
}

Status Session::read_prompt(const Progress& progress) {
  PUMICE_CHECK(batch_->submit(1));
  reused_ = batch_->reused(*sequence_);
  const uint64_t total = tokens().size() - reused_;
  while (const uint32_t left = batch_->unread(*sequence_)) {
    PUMICE_TRY(const std::span<const BatchToken> none, batch_->step());
    (void)none;
    if (progress && !progress(total - left, total)) {
      PUMICE_CHECK(pause());
      return Error{Code::cancelled, "reading the prompt was cancelled"};
    }
    PUMICE_CHECK(batch_->submit(1));
  }
  if (progress) {
    PUMICE_CHECK(batch_->wait());
    progress(total, total);
  }
  return {};
}

Result<uint32_t> Session::next() {
  if (tokens().empty()) return Error{Code::invalid_argument, "there is no prompt to go on from"};
  if (full()) {
    return Error{Code::invalid_argument, fmt::format("the context of {} tokens is full", size().context)};
  }
  if (!sequence_) {
    PUMICE_CHECK(begin(conversation_));
  }
  std::span<const BatchToken> results;
  while (results.empty()) {
    PUMICE_TRY(results, batch_->step());
  }
  last_ = results[0];
  if (last_.finish_reason != FinishReason::none) sequence_.reset();
  conversation_.tokens.push_back(last_.token);
  return last_.token;
}

Status Session::save(const std::filesystem::path& path) {
  PUMICE_CHECK(pause());
  return batch_->save(path, 0, conversation_);
}

Status Session::load(const std::filesystem::path& path) {
  PUMICE_CHECK(pause());
  PUMICE_TRY(conversation_, batch_->load(path, 0));
  return {};
}

} // namespace pumice
