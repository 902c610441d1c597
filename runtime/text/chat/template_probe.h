#pragma once

#include <ctime>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "text/chat/chat_template.h"

namespace pumice {

// What is looked for in the texts that a template makes.
namespace probe {
inline constexpr std::string_view answer = "answer-to-be-found", thought = "thought-to-be-found",
                                  result = "result-to-be-found", value = "value-to-be-found",
                                  name = "tool_to_be_found", other_value = "other-text-there",
                                  other_name = "another_function";
inline constexpr const char *argument = "argument_to_be_found", *other_argument = "second_parameter";
// An id as Mistral wants it, one as OpenAI's interface has it, and one as Kimi's models write it, whose
// templates write it in place of a name.
inline constexpr const char *letters = "a1b2c3d4e", *called = "call_a1b2c3d4e5f6a7b8c9d0e1f2",
                            *named = "functions.tool_to_be_found:0";
// Members of messages in which templates read what a model thought.
inline constexpr const char* thinking_members[] = {"reasoning_content", "thinking", "reasoning", "thought"};
} // namespace probe

class TemplateProbe;

// How a template takes calls.
struct CallStyle {
  std::string id = {};  // with which it takes one; empty: it takes none
  bool as_text = false; // arguments are JSON in a string
  bool thinks = false;  // it takes calls with a thought alone

  static CallStyle of(const TemplateProbe& render);
};

// Renders small conversations with a template.
class TemplateProbe {
public:
  TemplateProbe(const ChatTemplate& chat_template, const std::tm& now);

  static nlohmann::ordered_json said(std::string_view text);
  static nlohmann::ordered_json with_thought(nlohmann::ordered_json message);

  struct Call {
    std::string_view name;
    nlohmann::ordered_json arguments;
  };
  static Call usual_call();
  // The style's id may be empty: the calls have none.
  static nlohmann::ordered_json with_calls(std::string_view content, const std::vector<Call>& calls,
                                           const CallStyle& style);

  // The text with these messages after a question; nothing if the template refuses them.
  std::optional<std::string> operator()(const std::vector<nlohmann::ordered_json>& messages,
                                        bool prompt = false) const;

  // Ids whose length and beginning the template's text names, as in c.id|length != 12.
  std::vector<std::string> ids_in_text() const;

private:
  const ChatTemplate& template_;
  const std::tm& now_;
  bool parts_;
};

} // namespace pumice
