#include "api/events.h"

namespace pumice::api {

static_assert(static_cast<int>(FinishReason::stop) == PUMICE_FINISH_STOP &&
              static_cast<int>(FinishReason::length) == PUMICE_FINISH_LENGTH &&
              static_cast<int>(FinishReason::context) == PUMICE_FINISH_CONTEXT);

static_assert(static_cast<int>(AnswerPart::Kind::content) + 1 == PUMICE_PART_CONTENT &&
              static_cast<int>(AnswerPart::Kind::thinking) + 1 == PUMICE_PART_THINKING &&
              static_cast<int>(AnswerPart::Kind::tool_call) + 1 == PUMICE_PART_TOOL_CALL);

void Events::begin(std::shared_ptr<const Tokenizer> tokenizer, std::span<const uint32_t> conversation,
                   std::vector<std::string> stops, std::unique_ptr<OpenAnswer> answer, uint32_t text_id) {
  waiting_.clear();
  text_id_ = text_id;
  position_ = static_cast<uint32_t>(conversation.size());
  reused_ = 0;
  text_.reset();
  answer_ = std::move(answer);
  if (!answer_) text_.emplace(std::move(tokenizer), conversation, std::move(stops));
}

bool Events::token(const BatchToken& token) {
  reused_ = token.reused;
  if (token.finish_reason != FinishReason::stop) {
    Event event;
    event.event.type = PUMICE_EVENT_TOKEN;
    event.event.token = token.token;
    event.event.position = position_;
    if (text_) event.text = text_->push(token.token);
    event.event.log_probability = token.log_probabilities.log_probability;
    for (const TokenLogProbability& each : token.log_probabilities.top)
      event.top.push_back({each.token, each.log_probability});
    emit(std::move(event));
    if (answer_) emit(answer_->answer().push(token.token));
  }
  ++position_;
  return !(answer_ ? answer_->answer().stopped() : text_ && text_->stopped());
}

void Events::end(pumice_finish_reason reason) {
  Event event;
  event.event.type = PUMICE_EVENT_END;
  event.event.position = position_;
  event.event.finish_reason = reason;
  if (text_) event.text = text_->finish();
  if (answer_) {
    emit(answer_->answer().finish());
    if (reason != PUMICE_FINISH_CANCELLED) answer_->complete();
    answer_.reset();
  }
  emit(std::move(event));
}

const pumice_event* Events::Event::complete() {
  event.text = text.c_str();
  event.top = top.empty() ? nullptr : top.data();
  event.top_count = static_cast<uint32_t>(top.size());
  event.name = name.c_str();
  event.id = id.c_str();
  return &event;
}

void Events::emit(const std::vector<AnswerPart>& parts) {
  for (const AnswerPart& part : parts) {
    Event event;
    event.event.type = PUMICE_EVENT_PART;
    event.event.position = position_;
    event.event.part = static_cast<pumice_part>(static_cast<int>(part.kind) + 1);
    event.text = part.text;
    if (part.kind == AnswerPart::Kind::tool_call) {
      event.text = part.call.arguments.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
      event.name = part.call.name;
      event.id = part.call.id;
    }
    emit(std::move(event));
  }
}

void Events::emit(Event event) {
  if (closed_) return;
  event.event.text_id = text_id_;
  event.event.reused = reused_;
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
