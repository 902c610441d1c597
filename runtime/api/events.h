#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "api/chat.h"
#include "api/pumice.h"
#include "step/batch.h"
#include "task/generated_text.h"

namespace pumice::api {

// What the application hears of a text: each token as an event, and the end as another. Events go to the
// application's function, or wait until they are polled.
class Events {
public:
  void set_function(pumice_event_function function, void* user) {
    function_ = function;
    user_ = user;
  }

  // A text begins, which continues `conversation`. Drops events that were not polled. `tokenizer` may be
  // null. `answer`: the text answers a chat, in parts.
  void begin(std::shared_ptr<const Tokenizer> tokenizer, std::span<const uint32_t> conversation,
             std::vector<std::string> stops, std::unique_ptr<OpenAnswer> answer = nullptr,
             uint32_t text_id = 0);
  // The next token of the conversation. False: it completes a string that ends the text.
  bool token(const BatchToken& token);
  void end(pumice_finish_reason reason);
  // The text has ended without an event.
  void end() { answer_.reset(); }

  // The next event that waits, or null. Valid until the next call.
  const pumice_event* poll();

  // Sends no events from now on.
  void close() { closed_ = true; }
  // The position of the next token in the conversation.
  uint32_t position() const { return position_; }

private:
  struct Event {
    pumice_event event = {};
    std::string text, name, id;
    std::vector<pumice_token_probability> top;

    const pumice_event* complete(); // with its pointers, which moving it would break
  };

  void emit(Event event);
  void emit(const std::vector<AnswerPart>& parts);

  pumice_event_function function_ = nullptr;
  void* user_ = nullptr;
  std::optional<GeneratedText> text_;  // none of an answer
  std::unique_ptr<OpenAnswer> answer_; // with its own text
  uint32_t text_id_ = 0;               // in a batch
  uint32_t position_ = 0;
  uint32_t reused_ = 0;
  std::deque<Event> waiting_;
  Event polled_; // must stay valid for the application
  bool closed_ = false;
};

} // namespace pumice::api
