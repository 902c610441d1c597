#include "api/events.h"

namespace pumice::api {

static_assert(static_cast<int>(FinishReason::stop) == PUMICE_FINISH_STOP &&
              static_cast<int>(FinishReason::length) == PUMICE_FINISH_LENGTH &&
              static_cast<int>(FinishReason::context) == PUMICE_FINISH_CONTEXT);

void Events::begin(std::shared_ptr<const Tokenizer> tokenizer, std::span<const uint32_t> conversation,
                   std::vector<std::string> stops, uint32_t text_id) {
  waiting_.clear();
  text_id_ = text_id;
  position_ = static_cast<uint32_t>(conversation.size());
  stops_ = StopStrings(std::move(stops));
  text_.reset();
  if (tokenizer) text_.emplace(std::move(tokenizer), conversation);
}

bool Events::token(const BatchToken& token) {
  if (token.finish_reason != FinishReason::stop) {
    Event event;
    event.event.type = PUMICE_EVENT_TOKEN;
    event.event.token = token.token;
    event.event.position = position_;
    if (text_) event.text = stops_.push(text_->push(token.token));
    event.event.log_probability = token.log_probabilities.log_probability;
    for (const TokenLogProbability& each : token.log_probabilities.top)
      event.top.push_back({each.token, each.log_probability});
    emit(std::move(event));
  }
  ++position_;
  return !stops_.found();
}

void Events::end(pumice_finish_reason reason) {
  Event event;
  event.event.type = PUMICE_EVENT_END;
  event.event.position = position_;
  event.event.finish_reason = reason;
  if (text_) {
    event.text = stops_.push(text_->flush());
    event.text += stops_.flush();
  }
  emit(std::move(event));
}

const pumice_event* Events::Event::complete() {
  event.text = text.c_str();
  event.top = top.empty() ? nullptr : top.data();
  event.top_count = static_cast<uint32_t>(top.size());
  return &event;
}

void Events::emit(Event event) {
  if (closed_) return;
  event.event.text_id = text_id_;
  if (!function_) {
    waiting_.push_back(std::move(event));
    return;
  }
  function_(user_, event.complete());
}

const pumice_event* Events::poll() {
  if (waiting_.empty()) return nullptr;
  polled_ = std::move(waiting_.front());
  waiting_.pop_front();
  return polled_.complete();
}

} // namespace pumice::api
