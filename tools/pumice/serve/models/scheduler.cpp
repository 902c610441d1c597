#include "serve/models/scheduler.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include <fmt/format.h>

#include "base/guarded.h"

namespace pumice::serve {

Result<std::optional<Texts::Token>> Texts::next(double seconds) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, std::chrono::duration<double>(seconds),
                    [&] { return !tokens_.empty() || running_ == 0; });
  if (out_of_memory_) return Error{Code::out_of_memory, "there is not enough memory"};
  if (error_) return *error_;
  if (tokens_.empty()) return std::optional<Token>();
  std::optional<Token> token = std::move(tokens_.front());
  tokens_.pop_front();
  return token;
}

bool Texts::ended() const {
  const std::lock_guard lock(mutex_);
  return tokens_.empty() && running_ == 0;
}

void Texts::stop(size_t text) {
  const std::lock_guard lock(mutex_);
  stopped_[text] = true;
}

void Texts::stop_all() {
  const std::lock_guard lock(mutex_);
  stopped_.assign(stopped_.size(), true);
}

bool Texts::is_stopped(size_t text) const {
  const std::lock_guard lock(mutex_);
  return stopped_[text];
}

void Texts::give(size_t text, const BatchToken& token) {
  const std::lock_guard lock(mutex_);
  if (!stopped_[text]) tokens_.push_back({text, token});
  changed_.notify_all();
}

void Texts::end(size_t, const Status& status) {
  const std::lock_guard lock(mutex_);
  if (!status.ok() && !error_) {
    // There may be no memory for the copy of a text that says so.
    const Status kept = guarded([&] { error_ = status.error(); });
    if (!kept.ok()) out_of_memory_ = true;
  }
  if (running_ > 0) --running_;
  changed_.notify_all();
}

Result<std::unique_ptr<Scheduler>> Scheduler::create(std::shared_ptr<const Model> model,
                                                     SessionOptions options, size_t most_waiting) {
  std::unique_ptr<Scheduler> scheduler(new Scheduler(std::move(model), std::move(options), most_waiting));
  PUMICE_CHECK(scheduler->make_batch());
  PUMICE_CHECK(
      guarded([&] { scheduler->thread_ = std::thread([owner = scheduler.get()] { owner->run(); }); }));
  return scheduler;
}

Scheduler::~Scheduler() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
    changed_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
}

Status Scheduler::make_batch() {
  batch_.reset(); // its memory is free for the next one
  PUMICE_TRY(batch_, BatchGroups::create(model_, options_));
  context_ = batch_->context();
  return {};
}

Result<std::shared_ptr<Texts>> Scheduler::add(std::vector<SequenceRequest> requests) {
  std::shared_ptr<Texts> texts(new Texts(requests.size()));
  const std::lock_guard lock(mutex_);
  if (broken_ || ending_) {
    return Error{Code::not_ready, broken_ ? "the device does not compute any more: start the server again"
                                          : "the server is ending"};
  }
  if (requests.size() > most_waiting_) {
    return Error{Code::invalid_argument, fmt::format("the request asks for {} texts: expected at most {}",
                                                     requests.size(), most_waiting_)};
  }
  if (waiting_.size() + figures_.running + requests.size() > most_waiting_) {
    return Error{Code::not_ready, fmt::format("{} texts are waiting already, of at most {}: try again later",
                                              waiting_.size() + figures_.running, most_waiting_)};
  }
  std::list<Waiting> newcomers; // all of them or, where there is no memory, none
  for (size_t i = 0; i < requests.size(); ++i) newcomers.push_back({texts, i, std::move(requests[i])});
  waiting_.splice(waiting_.end(), newcomers);
  figures_.waiting = waiting_.size();
  changed_.notify_all();
  return texts;
}

void Scheduler::run() {
  bool goes_on = true;
  while (goes_on) {
    const Status status = guarded([&] { goes_on = work(); });
    if (!status.ok()) // mostly the host's memory, which may be there again then
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  std::list<Waiting> left;
  {
    const std::lock_guard lock(mutex_);
    left.swap(waiting_);
  }
  for (const std::list<Waiting>* all : {&newcomers_, &left}) {
    for (const Waiting& each : *all) each.texts->end(each.text, ended_);
  }
  fail_all(ended_);
}

// Newcomers, and a step. False: the scheduler ends.
bool Scheduler::work() {
  {
    std::unique_lock lock(mutex_);
    changed_.wait(lock,
                  [&] { return ending_ || !waiting_.empty() || !newcomers_.empty() || !running_.empty(); });
    newcomers_.splice(newcomers_.end(), waiting_);
    figures_.waiting = 0;
    if (ending_) return false;
  }
  while (!newcomers_.empty()) {
    begin(newcomers_.front());
    newcomers_.pop_front();
  }
  remove_stopped();
  if (!running_.empty()) step();
  return true;
}

void Scheduler::begin(Waiting& waiting) {
  if (waiting.texts->is_stopped(waiting.text)) return waiting.texts->end(waiting.text);
  // In its place before it joins: then nothing is left of a text that has not.
  const Status joined = guarded([&]() -> Status {
    std::list<Running> place(1);
    PUMICE_TRY(place.front().id, batch_->add(waiting.request));
    running_.splice(running_.end(), place);
    return {};
  });
  if (!joined.ok()) {
    ++figures_.failed;
    return waiting.texts->end(waiting.text, joined.error());
  }
  waiting.texts->joined_ = true;
  ++figures_.texts;
  figures_.prompt_tokens += waiting.request.prompt.size();
  running_.back().texts = std::move(waiting.texts);
  running_.back().text = waiting.text;
  running_.back().request = std::move(waiting.request);
  figures_.running = running_.size();
}

void Scheduler::remove_stopped() {
  for (auto each = running_.begin(); each != running_.end();) {
    if (!each->texts->is_stopped(each->text)) {
      ++each;
      continue;
    }
    const Status status = guarded([&] { return batch_->stop(each->id); });
    ++figures_.stopped;
    each->texts->end(each->text);
    each = running_.erase(each);
    if (!status.ok()) return fail_all(status.error());
  }
  figures_.running = running_.size();
}

Status Scheduler::take_step() {
  PUMICE_TRY(const std::span<const BatchToken> tokens, batch_->step());
  ++figures_.steps;
  for (const BatchToken& token : tokens) {
    const auto found = std::ranges::find(running_, token.sequence, &Running::id);
    if (found == running_.end()) continue;
    ++figures_.tokens;
    if (!std::exchange(found->begun, true)) figures_.reused_tokens += token.reused;
    found->request.prompt.push_back(token.token);
    --found->request.max_tokens;
    found->texts->give(found->text, token);
    if (token.finish_reason == FinishReason::none) continue;
    found->texts->end(found->text);
    running_.erase(found);
  }
  figures_.running = running_.size();
  return {};
}

void Scheduler::step() {
  const Status status = guarded([&] { return take_step(); });
  if (status.ok()) return;
  const Code code = status.error().code;
  const bool by_text = code == Code::invalid_argument || code == Code::unsupported;
  if (by_text && running_.size() > 1) return separate();
  fail_all(status.error());
}

// A step fails where the form of one text cannot be kept to. Each comes to its next token alone, and those
// that do go on together.
void Scheduler::separate() {
  std::list<Running> all, well;
  all.swap(running_);
  const auto resume = [&](Running& text) -> Status {
    PUMICE_TRY(text.id, guarded([&] { return batch_->add(text.request); }));
    return {};
  };
  const auto stop_all = [&] { return guarded([&] { return batch_->stop_all(); }); };
  Status stopped = stop_all();
  while (!all.empty() && stopped.ok()) {
    running_.splice(running_.end(), all, all.begin());
    Running& text = running_.front();
    const size_t before = text.request.prompt.size();
    Status alone = resume(text);
    while (alone.ok() && !running_.empty() && text.request.prompt.size() == before)
      alone = guarded([&] { return take_step(); });
    if (!alone.ok()) fail_all(alone.error());
    if (broken_) break;
    well.splice(well.end(), running_);
    stopped = stop_all();
  }
  running_ = std::move(well);
  running_.splice(running_.end(), all);
  if (!stopped.ok()) return fail_all(stopped.error());
  for (auto each = running_.begin(); each != running_.end();) {
    const Status status = broken_ ? Status(Error{Code::device_lost, "the device was lost"}) : resume(*each);
    if (!status.ok()) each->texts->end(each->text, status);
    each = status.ok() ? std::next(each) : running_.erase(each);
  }
  figures_.running = running_.size();
}

// The next requests get a batch that works.
void Scheduler::fail_all(const Error& error) {
  figures_.failed += running_.size();
  for (Running& each : running_) each.texts->end(each.text, error);
  running_.clear();
  figures_.running = 0;
  if (error.code == Code::cancelled) return;
  if (error.code != Code::device_lost && guarded([&] { return batch_->stop_all(); }).ok()) return;
  broken_ = !guarded([&] { return make_batch(); }).ok();
  if (!broken_) return;
  const std::lock_guard lock(mutex_);
  for (Waiting& each : waiting_) each.texts->end(each.text, error);
  waiting_.clear();
}

} // namespace pumice::serve
