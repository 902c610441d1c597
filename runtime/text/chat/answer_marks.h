#pragma once

#include <ctime>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/chat/chat_template.h"
#include "text/chat/shown_call.h"

namespace pumice {

// How a model marks the parts of its answers. Its own template shows it: it writes an answer, a thought and a
// call for the next prompt as the model wrote them.
struct AnswerMarks {
  struct Pair {
    std::string begin, end;
  };
  std::vector<Pair> thinking;
  // The template says nothing of thinking: a thought may only begin an answer.
  bool thinking_first = false;
  // The template writes thoughts: an answer without its first mark may be one.
  bool shows_thinking = false;
  const char* thinking_member = nullptr; // of messages, in which it reads them; null: that is not known
  std::vector<Pair> content;             // which some have around it; without an end, up to the next mark
  // Whichever of these comes first begins calls. One that ends with the name of a tag, as <function= does, is
  // a part of the call, and so is the bracket of functools[.
  std::vector<std::string> call_begins, call_ends;
  std::string call_opening;            // from there to the name: {"tool": "
  std::string call_middle;             // words between a name and an object: Action Input:
  bool tight_values = false;           // values stand beside their tags, without line ends
  std::string head;                    // of an answer, which the prompt ends with; models write it again
  bool bare_calls = false;             // a JSON object alone is a call
  bool bare_names = false;             // a call begins with the name of its tool
  std::optional<ShownCall> shown = {}; // calls are written in a way that is the template's own
  bool recipients = false; // Functionary: >>>NAME and a line end before each text; NAME is "all" for people
  bool channels = false;   // gpt-oss: <|channel|>analysis<|message|>...<|end|>, and the role before that

  // An id as the template wants it for calls that have none; empty: it wants none.
  std::string id;
  // What the template leaves out, or refuses: calls in older answers, and results of tools.
  bool no_calls_shown = false, no_results_shown = false;

  static AnswerMarks of(const ChatTemplate& chat_template, const std::tm& now);
};

// The length of the mark that a text begins with, such as <think>, <|START_ACTION|>, <invoke name="f">,
// [TOOL_CALLS] or ```json; 0: it begins with none.
size_t mark_length(std::string_view text);

} // namespace pumice
