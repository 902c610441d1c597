#pragma once

// Answers of models, told apart by the marks of their templates.
#include <ctime>
#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "support/chat_families.h"
#include "support/require.h"
#include "text/chat/chat_answer.h"

namespace pumice::test {

struct AnswerCase {
  const std::string& chat_template;
  std::string answer;
  std::string content, thinking, calls; // as text_of() writes calls
};

inline std::string text_of(const std::vector<ToolCall>& calls) {
  std::string text;
  for (const ToolCall& call : calls)
    text += (text.empty() ? "" : "; ") + call.name + " " + call.arguments.dump();
  return text;
}

// In one piece, and in pieces of some lengths.
inline void check_answer(const AnswerCase& each, const nlohmann::ordered_json& tools) {
  INFO(each.answer);
  const ChatTemplate parsed = require(ChatTemplates().parse(each.chat_template, "template"));
  const auto question = nlohmann::ordered_json::array({{{"role", "user"}, {"content", "Go on."}}});
  const std::string prompt = require(
      parsed.render({{"messages", question}, {"tools", tools}, {"add_generation_prompt", true}}, std::tm()));
  for (const size_t length : {each.answer.size(), size_t(1), size_t(2), size_t(3), size_t(7), size_t(19)}) {
    CAPTURE(length);
    AnswerParser parser(marks_of(each.chat_template), prompt, tools);
    Answered answered;
    for (size_t at = 0; at < each.answer.size(); at += length) {
      for (const AnswerPart& part : parser.push(std::string_view(each.answer).substr(at, length)))
        answered.add(part);
    }
    for (const AnswerPart& part : parser.finish()) answered.add(part);
    CHECK(answered.content == each.content);
    CHECK(answered.thinking == each.thinking);
    CHECK(text_of(answered.tool_calls) == each.calls);
  }
}

} // namespace pumice::test
