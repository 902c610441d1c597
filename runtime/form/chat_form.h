#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "form/form.h"
#include "text/chat/answer_marks.h"
#include "text/chat/written_call.h"
#include "text/tokenizer.h"

namespace pumice {

// What an answer to a chat may be: text and thoughts are free, and calls follow the tools' schemas; or what
// comes after the thoughts has a form.
struct ChatFormSource {
  const AnswerMarks& marks;
  const Result<WrittenCall>& call; // how the model writes calls
  const Tokenizer& tokenizer;
  std::string_view prompt; // its end may have begun a thought
  bool may_think;
  const nlohmann::ordered_json& tools; // the list that the template was given, or null
  // "auto": calls or none; "none": no call; "required": at least one; or the name of the only tool to call.
  std::string_view tool_choice;
  const FormSource& form;
  std::span<const uint32_t> ends; // tokens that end an answer
};

// Errors: unsupported, with a sentence, where the model's way to write calls cannot be held; what is wrong
// with the form. `notes`: sentences on tools whose arguments follow no schema, because it cannot be kept to.
Result<form::Grammar> chat_grammar(const ChatFormSource& source, std::vector<std::string>& notes);

// The bytes of a text as forms have them: those of the special tokens that it spells are their own.
std::string spelled_bytes(const Tokenizer& tokenizer, std::string_view text);

} // namespace pumice
