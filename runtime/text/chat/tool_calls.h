#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "text/chat/answer_marks.h"

namespace pumice {

// A model asks for a tool to be called.
struct ToolCall {
  std::string name;
  nlohmann::ordered_json arguments = nlohmann::ordered_json::object();
  std::string id = {}; // empty unless the model wrote one, or its template wants one
};

// The calls that a text begins with.
struct ReadCalls {
  enum class State {
    whole,
    cut, // the text ends before they do
    none
  };
  State state = State::none;
  std::vector<ToolCall> calls = {};
  size_t length = 0;     // of the text that they take
  std::string left = {}; // of that text, what stands in the place of a call, among others, and is none
};

// Reads one call, or a list of calls, as models write them:
//   {"name": "f", "arguments": {"a": 1}}     or "parameters", "tool_name", {"f": {"a": 1}}; a list of them
//   [f(a=1), g('b')]                         Python, with or without the list
//   <function=f><parameter=a>1</parameter></function>, <invoke name="f"><parameter
//   name="a">1</parameter></invoke> f <arg_key>a</arg_key><arg_value>1</arg_value> f[CALL_ID]x[ARGS]{"a": 1}
//   <server_name>s</server_name><tool_name>f</tool_name><arguments>{...}</arguments> MiroThinker
//   a name, marks, and an object, which a block of code may hold call:f{a:1,b:<|"|>text<|"|>} Gemma 4
// Marks that begin calls may come before that. A call ends where its own grammar does, whatever its strings
// spell. Of several in one frame, those that can be read are calls. `tools` is the list that the template was
// given, or null: it has the types of arguments that stand there without quotes, and the names of those
// without names. `ended`: no more text follows.
ReadCalls read_calls(std::string_view text, const AnswerMarks& marks, const nlohmann::ordered_json& tools,
                     bool ended);

// The same for the object of arguments of a function that is known.
ReadCalls read_arguments(std::string_view text, const std::string& function, bool ended);

} // namespace pumice
