#pragma once

#include <ctime>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "form/form.h"
#include "generate/picture_prompt.h"
#include "task/chat_media.h"
#include "text/chat/chat.h"
#include "text/stop_strings.h"

namespace pumice {

struct ModelChatOptions {
  std::tm now = {};          // the local time, as Chat has it
  uint32_t most_patches = 0; // of a picture, see picture_preparation()
  // How the caller names another template, for an error: "name another template with --template".
  std::string other_template;
};

// What an answer is to be.
struct AnswerOptions {
  FormSource form = {}; // of what comes after the thoughts
  // Calls of tools: "auto", "none", "required" (at least one), or the name of the only tool to call.
  std::string tool_choice = "auto";
};

// A model's chat: what was said, the pictures and sounds in it, and the prompts that they make.
class ModelChat {
public:
  static Result<ModelChat> open(const ModelFile& file, const ModelShape& shape, ChatTemplate chosen,
                                std::shared_ptr<const Tokenizer> tokenizer, const ModelChatOptions& options);

  Chat& chat() { return chat_; }
  const Chat& chat() const { return chat_; }
  const nlohmann::ordered_json& messages() const { return chat_.messages(); }
  ChatMedia& media() { return media_; }
  bool has_vision() const { return media_.has_vision(); }
  const std::optional<PictureTokens>& picture_tokens() const { return shape_; }
  // Forgets the pictures and sounds that these messages have and the chat's do not.
  void forget_media(const nlohmann::ordered_json& messages) { media_.forget(messages, chat_.messages()); }

  struct Prompt {
    ChatPrompt text;
    MediumParts media; // in their order
    size_t tokens = 0; // with the rows of the media

    bool encoded() const; // all of them have rows
  };
  // The prompt for the next answer, which begins with `begun`. invalid_argument where the template has no
  // place for the pictures.
  Result<Prompt> prompt(std::string begun = {}) const;
  // The tokens of a prompt whose pictures are all seen, with their rows.
  Result<PicturePrompt> with_rows(const Prompt& prompt) const;

  // The form of the answer to a prompt. Where calls are neither forbidden nor demanded and the model's way to
  // write them cannot be held, there is none. invalid_argument, with `options.` before what is wrong.
  Result<TextForm> form_of_answer(const AnswerOptions& options, const Prompt& prompt,
                                  LazyFormVocabulary& forms);
  // Whether the calls of answers are held to the tools' schemas. unsupported, with sentences that say why
  // not.
  Status check_calls() const;

  // The prompt of a chat that is to leave room for an answer in a context.
  struct Room {
    Prompt prompt;
    size_t forgotten = 0; // messages of the oldest turns, which are no part of the chat any more
    Status before, now;   // what Chat::check_room() says of the whole chat, and of what is left
  };
  // If there is none, forgets the oldest turns until there is and what is left fills at most half of the
  // context, also where an error follows. What is left has to be read again, so that is to happen seldom.
  // `max_tokens`: of the answer; 0: no limit.
  Result<Room> make_room(uint32_t context, uint32_t max_tokens, const std::string& begun = {});

private:
  ModelChat(Chat chat, ChatMedia media, std::optional<PictureTokens> shape, std::string model,
            std::string other_template)
      : chat_(std::move(chat)), media_(std::move(media)), shape_(std::move(shape)), model_(std::move(model)),
        other_template_(std::move(other_template)) {}

  Chat chat_;
  ChatMedia media_;
  std::optional<PictureTokens> shape_; // of a model that has pictures in its prompts
  std::string model_, other_template_; // for messages
  struct KnownForm {
    std::string key;
    std::shared_ptr<Form> form;
  };
  std::optional<KnownForm> form_; // of the last answer
};

// An answer to a chat that arrives in tokens, divided into parts.
class ArrivingAnswer {
public:
  // `stops`: strings that end the text.
  ArrivingAnswer(const Chat& chat, const ChatPrompt& prompt, std::vector<std::string> stops = {});

  std::vector<AnswerPart> push(uint32_t token);
  // What is left, at the end of the answer.
  std::vector<AnswerPart> finish();
  bool stopped() const { return stops_.found(); } // at a string that ends it
  const ChatAnswer& answer() const { return answer_; }

private:
  ChatAnswer answer_;
  StreamDecoder text_; // with special tokens: marks of parts may be some
  StopStrings stops_;
};

} // namespace pumice
