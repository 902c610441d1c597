#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "serve/http/exchange.h"
#include "serve/models/served_model.h"
#include "serve/routes/request_body.h"
#include "serve/routes/slots.h"
#include "task/generated_text.h"

namespace pumice::serve {

// How a text has come, for the answer.
struct TextEnd {
  enum class Reason { stop, stop_string, length };
  Reason reason = Reason::stop;
  uint32_t tokens = 0;
};

// What is done with texts that arrive. Called by the thread that answers.
class TextTaker {
public:
  virtual ~TextTaker() = default;
  virtual void text(size_t index, const std::string& piece) = 0;           // of a text without a chat
  virtual void part(size_t index, const AnswerPart& part) = 0;             // of an answer to a chat
  virtual void token(size_t index, const TokenLogProbabilities& each) = 0; // where they were asked for
  virtual void end(size_t index, const TextEnd& end) = 0;
  // Called after each token's text. False: nobody waits any more.
  virtual bool flush() { return true; }
};

// A chat as an interface has it.
struct ChatWish {
  Json messages;
  Json variables = Json::object(); // of the template, with its tools
  std::optional<bool> thinking;
  std::string tool_choice = "auto";
  TextWish text;
};

// What is generated for a request: one or several texts that follow from the same prompt, or from several.
class Generation {
public:
  // Answers to a chat. The messages are as the template reads them.
  static Result<std::unique_ptr<Generation>> of_chat(TextModel& model, ChatWish wish);
  static Result<std::unique_ptr<Generation>>
  of_prompts(TextModel& model, std::vector<std::vector<uint32_t>> prompts, const TextWish& wish);

  ~Generation() {
    if (running_) running_->stop_all();
  }

  uint64_t prompt_tokens() const { return prompt_tokens_; }
  uint64_t reused_tokens() const { return reused_tokens_; } // of the prompts
  uint64_t tokens() const { return tokens_; }               // that were generated
  size_t texts() const { return texts_.size(); }
  // Runs the model's tower for pictures and sounds, and hands the texts to the batch. not_ready where too
  // many wait there; then nothing of the answer was sent.
  Status start(Slots& slots, const std::string& model, Exchange& exchange);
  // Then runs to the end, or until the client is gone.
  Status run(Exchange& exchange, TextTaker& taker);

private:
  struct Text {
    SequenceRequest request;
    std::optional<GeneratedText> plain;
    std::optional<ArrivingAnswer> answer;
    size_t skip = 0; // bytes of its content that the prompt has begun
    uint32_t tokens = 0;
    bool ended = false;
  };
  explicit Generation(TextModel& model) : model_(model) {}
  Status see(Exchange& exchange); // the prompt gets the rows of its pictures and sounds
  void take(Text& text, size_t index, const BatchToken& token, TextTaker& taker, Texts& texts);
  void hand_out(Text& text, size_t index, const std::vector<AnswerPart>& parts, TextTaker& taker);

  TextModel& model_;
  std::deque<Text> texts_;
  size_t ended_ = 0; // of them
  std::shared_ptr<Texts> running_;
  std::shared_ptr<Slot> slot_;
  std::shared_ptr<KeyUse> key_;                                 // null: none
  std::optional<std::pair<ModelChat, ModelChat::Prompt>> seen_; // a prompt with media
  uint64_t prompt_tokens_ = 0, reused_tokens_ = 0, tokens_ = 0;
};

// Messages as templates read them, of those that OpenAI's interface has. Errors name the message. Pictures
// and sounds are what picture_part() and sound_part() make.
Result<Json> read_messages(Json messages);
// The tools of OpenAI's interface, and which of them are to be called.
Status read_tools(const RequestBody& body, ChatWish& wish);

} // namespace pumice::serve
