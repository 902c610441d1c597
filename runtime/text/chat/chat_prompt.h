#pragma once

#include <ctime>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "text/chat/chat_template.h"
#include "text/chat/picture_markup.h"
#include "text/tokenizer.h"

namespace pumice {

// A conversation as a model reads it.
struct ChatPrompt {
  std::string text; // as the template rendered it
  std::vector<uint32_t> ids;
  std::string begun = {}; // what the answer begins with; `text` and `ids` end with it

  // What the template rendered.
  std::string_view rendered() const { return std::string_view(text).substr(0, text.size() - begun.size()); }
};

// Renders a conversation and cuts it into tokens. Special tokens that the template writes are special tokens;
// those that a message, a call of a tool or the description of one spells stay text. `variables` as
// ChatTemplate::render() takes them. `read` is what a session has read, and what it has generated: a prompt
// that goes on with its text goes on with its tokens too, which need not be those that the text would be cut
// into. `pictures`: what stands where the template shows pictures, or sounds; a template that does not know
// of these has their places where texts would be. `begun`: what the answer begins with;
// special tokens that it spells are special tokens.
Result<ChatPrompt> encode_chat(const ChatTemplate& chat_template, const Tokenizer& tokenizer,
                               nlohmann::ordered_json variables, const std::tm& now,
                               const ChatPrompt& read = {}, const PicturePlaces& pictures = {},
                               std::string begun = {});

// Whether a template shows the contents of messages only where they are lists of parts, as those of models
// that see may.
bool reads_parts_alone(const ChatTemplate& chat_template, const std::tm& now);
// Makes each content that is a string a list of one part, {"type": "text", "text": ...}.
void contents_to_parts(nlohmann::ordered_json& messages);

// The tokens that end an answer: `of_model`, which end a text of the model, and the special token that the
// template writes behind an answer, if it writes one. Where an answer has several messages, as gpt-oss has
// them, the end of a message is no end of the answer.
std::vector<uint32_t> ends_of_answers(const ChatTemplate& chat_template, const Tokenizer& tokenizer,
                                      const std::tm& now, std::vector<uint32_t> of_model = {});

} // namespace pumice
