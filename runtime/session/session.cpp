#include "session/session.h"

#include <algorithm>
#include <chrono>

#include <fmt/format.h>

namespace pumice {

Result<std::unique_ptr<Session>> Session::create(std::shared_ptr<const Model> model, SessionOptions options) {
  RunnerOptions runner_options;
  runner_options.size = options.size;
  runner_options.size.sequences = 1;
  PUMICE_TRY(std::unique_ptr<Runner> runner, Runner::create(std::move(model), std::move(runner_options)));
  return std::unique_ptr<Session>(new Session(std::move(runner), options));
}

// Command buffers in flight use the runner's memory.
Session::~Session() {
  (void)settle();
}

// Waits for the steps that ran ahead; what they computed is thrown away. Their entries in the cache lie
// beyond the conversation and are overwritten before anything can see them.
Status Session::settle() {
  Status status;
  if (!in_flight_.empty()) status = runner_->wait(in_flight_.back());
  in_flight_.clear();
  sampled_ = false;
  return status;
}

Status Session::reset() {
  PUMICE_CHECK(settle());
  tokens_.clear();
  in_cache_ = 0;
  return {};
}

Status Session::prefill(std::span<const uint32_t> tokens, const SamplingParams& sampling,
                        const Progress& progress) {
  if (tokens.empty() && tokens_.empty()) {
    return Error{Code::invalid_argument, "the prompt is empty: expected at least one token"};
  }
  const uint64_t total = tokens_.size() + tokens.size();
  if (total >= size().context) {
    return Error{Code::invalid_argument,
                 fmt::format("the prompt of {} tokens does not fit the context of {}: expected "
                             "at most {}",
                             total, size().context, size().context - 1)};
  }
  const uint32_t vocabulary = runner_->model().shape().vocabulary;
  for (uint32_t token : tokens) {
    if (token < vocabulary) continue;
    return Error{Code::invalid_argument, fmt::format("{}: token {} is not in the vocabulary of {}",
                                                     runner_->model().file().path(), token, vocabulary)};
  }
  PUMICE_CHECK(settle());
  tokens_.insert(tokens_.end(), tokens.begin(), tokens.end());
  // At least one token has to run, for its logits.
  in_cache_ = std::min<uint32_t>(in_cache_, static_cast<uint32_t>(tokens_.size()) - 1);
  sampling_state_.set_params(0, sampling);
  sampling_state_.set_tokens(0, tokens_);

  const uint32_t first = in_cache_, end = static_cast<uint32_t>(tokens_.size());
  while (in_cache_ < end) {
    const uint32_t count = std::min(size().chunk, end - in_cache_);
    std::vector<StepToken> rows(count);
    for (uint32_t i = 0; i < count; ++i) rows[i] = {tokens_[in_cache_ + i], in_cache_ + i, 0, 0, false};
    const bool last = in_cache_ + count == end;
    rows.back().output = last;
    PUMICE_CHECK(runner_->write_step(rows));
    PUMICE_TRY(uint64_t value, runner_->submit(count));
    if (last) {
      in_flight_.push_back(value);
    } else {
      PUMICE_CHECK(runner_->wait(value));
    }
    in_cache_ += count;
    if (progress && !last && !progress(in_cache_ - first, end - first)) {
      return Error{Code::cancelled, "reading the prompt was cancelled"};
    }
  }
  next_position_ = end;
  sampled_ = true;
  PUMICE_CHECK(runner_->prepare(1)); // while the device works
  if (progress) {
    PUMICE_CHECK(runner_->wait(in_flight_.back()));
    progress(end - first, end - first);
  }
  return {};
}

Status Session::submit_decode() {
  PUMICE_TRY(uint64_t value, runner_->submit(1));
  in_flight_.push_back(value);
  ++next_position_;
  ++decode_steps_;
  return {};
}

Result<uint32_t> Session::next() {
  if (!sampled_) return Error{Code::invalid_argument, "there is no prompt to go on from"};
  if (full()) {
    return Error{Code::invalid_argument, fmt::format("the context of {} tokens is full", size().context)};
  }
  const auto start = std::chrono::steady_clock::now();
  while (in_flight_.size() <= options_.steps_ahead && next_position_ < size().context) {
    PUMICE_CHECK(submit_decode());
  }
  const std::chrono::duration<double> submitting = std::chrono::steady_clock::now() - start;
  host_seconds_ += submitting.count();

  PUMICE_CHECK(runner_->wait(in_flight_.front()));
  in_flight_.pop_front();
  in_cache_ = static_cast<uint32_t>(tokens_.size()); // all but the token that comes now
  const uint32_t token = sampling_state_.token(0, static_cast<uint32_t>(tokens_.size()));
  tokens_.push_back(token);
  return token;
}

} // namespace pumice
