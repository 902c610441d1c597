#pragma once

#include <ctime>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "text/chat/call_ids.h"
#include "text/chat/chat_answer.h"
#include "text/chat/chat_prompt.h"
#include "text/chat/written_call.h"

namespace pumice {

// What a person, a model and tools have said, as messages for a template, and how a model goes on with it.
class Chat {
public:
  // `ends`: the tokens that end a text of the model. `now`: the local time, for templates that write the
  // date; it stays what it is, so that a prompt begins as the one before it.
  Chat(ChatTemplate chosen, std::shared_ptr<const Tokenizer> tokenizer, std::vector<uint32_t> ends,
       const std::tm& now);

  const nlohmann::ordered_json& messages() const { return messages_; }
  // In the place of what was said. invalid_argument as check_messages() has it.
  Status set_messages(nlohmann::ordered_json messages);
  Status add(nlohmann::ordered_json message);
  void remove(size_t first, size_t count);
  // Where a person's last question is; the number of messages if there is none.
  size_t last_question() const;
  // Forgets the oldest turn: a question with all that follows it up to the next. A message that says how to
  // answer stays. Returns how many messages that were; 0: there is one turn alone.
  size_t forget_oldest_turn();

  // All that the template reads but the messages, such as "tools".
  const nlohmann::ordered_json& variables() const { return variables_; }
  void set_variables(nlohmann::ordered_json variables) { variables_ = std::move(variables); }
  // Asks for answers with or without thinking, in the template's own way; nothing: as the template has it. A
  // variable of set_variables() goes before it.
  void ask_for_thinking(std::optional<bool> wanted);
  // The marks around a model's thinking, BEGIN,END, in the place of what its template shows. invalid_argument
  // for anything but two marks.
  Status set_thinking_marks(std::string_view marks);
  // The member of a message in which this template reads what a model thought before it answered.
  const char* thinking_member() const {
    return marks_.thinking_member ? marks_.thinking_member : thinking_member_;
  }

  // The prompt for the next answer. It begins with the tokens of the last answer's, and those of that answer,
  // as far as the template writes the same text again. Errors as ChatTemplate::render() has them.
  // `pictures`: of the messages, in their order. `begun`: what the answer begins with; it goes on from there.
  Result<ChatPrompt> prompt(const PicturePlaces& pictures = {}, std::string begun = {}) const;
  const AnswerMarks& marks() const { return marks_; }
  bool may_think() const { return may_think_; } // answers without thinking were not asked for
  // How the model writes calls; found when it is first asked for.
  const Result<WrittenCall>& written_call() const;
  nlohmann::ordered_json tools() const { return variables_.value("tools", nlohmann::ordered_json()); }
  // Whether a prompt leaves enough of a context for an answer: some, or what is left if there is nothing to
  // forget. context_full, with the numbers. `max_tokens`: of the answer; 0: no limit.
  Status check_room(size_t prompt_tokens, uint32_t context, uint32_t max_tokens) const;

  // The tokens that end an answer.
  std::span<const uint32_t> ends() const { return ends_; }
  const std::shared_ptr<const Tokenizer>& tokenizer() const { return tokenizer_; }

private:
  friend class ChatAnswer;
  nlohmann::ordered_json all_variables() const;

  ChatTemplate template_;
  std::shared_ptr<const Tokenizer> tokenizer_;
  std::tm now_;
  const char* thinking_member_; // where rendering does not show it
  AnswerMarks marks_;
  mutable std::optional<Result<WrittenCall>> written_call_;
  bool may_think_ = true;
  bool parts_; // the template reads contents as lists of parts
  std::vector<uint32_t> ends_;
  nlohmann::ordered_json messages_ = nlohmann::ordered_json::array();
  nlohmann::ordered_json variables_ = nlohmann::ordered_json::object(), thinking_ = variables_;
  ChatPrompt read_; // what the session has read for the last answer, and that
};

// An answer that arrives: its text, divided into parts.
class ChatAnswer {
public:
  ChatAnswer(const Chat& chat, const ChatPrompt& prompt);

  // Adds a token, and the text that is known with it: special tokens are spelled in it, and a character that
  // is not complete comes with a later token. What the prompt has begun comes with the first one.
  std::vector<AnswerPart> push(uint32_t token, std::string_view text);
  // The rest of the text, at the end of the answer.
  std::vector<AnswerPart> finish(std::string_view text = {});
  // The text ends before some of its tokens do, at a string that was to end it.
  void cut_text() { cut_ = true; }

  size_t tokens() const { return read_.ids.size() - prompt_tokens_; }
  const Answered& answered() const { return answered_; }
  // Adds the answer to the conversation that it was made for.
  void add_to(Chat& chat) const;

private:
  std::vector<AnswerPart> added(std::vector<AnswerPart> parts);
  std::vector<AnswerPart> with_begun(std::vector<AnswerPart> parts);

  AnswerParser parser_;
  text::CallIds ids_;
  Answered answered_;
  std::vector<AnswerPart> begun_; // by the prompt, and not handed out
  ChatPrompt read_;               // the prompt, and the answer so far
  size_t prompt_tokens_ = 0;
  bool cut_ = false;
};

// Variables that ask a template for an answer with or without thinking: those that it names, by the values
// that its family of models knows. gpt-oss cannot do without: it then thinks little.
nlohmann::ordered_json thinking_variables(std::string_view template_text, bool wanted);

} // namespace pumice
