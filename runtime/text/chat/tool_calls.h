#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

namespace pumice {

// A model asks for a tool to be called.
struct ToolCall {
  std::string name;
  nlohmann::ordered_json arguments = nlohmann::ordered_json::object();
  std::string id = {}; // empty unless the model wrote one
};

// Reads calls as models write them. One of
//   {"name": "f", "arguments": {"a": 1}}                              Hermes, Qwen, Granite; several, or a
//   list
//   {"name": "f", "parameters": {"a": 1}}                             Llama 3
//   <function=f><parameter=a>1</parameter></function>                 Qwen 3 Coder, Qwen 3.5, Seed-OSS
//   f <arg_key>a</arg_key><arg_value>1</arg_value>                    GLM
//   f[CALL_ID]x[ARGS]{"a": 1}                                         Mistral
//   <｜tool▁call▁begin｜>f<｜tool▁sep｜>{"a": 1}<｜tool▁call▁end｜>  DeepSeek
//   [f(a=1), g()]                                                     LFM2, Gemma 3
//   call:f{a:1,b:<|"|>text<|"|>}                                      Gemma 4
// `tools` is the list that the template was given, or null. It says which values that stand there without
// quotes are strings. Nothing is returned unless the whole text is calls.
std::optional<std::vector<ToolCall>> read_tool_calls(std::string_view text,
                                                     const nlohmann::ordered_json& tools);

// An object of arguments that is the whole text. Nothing if it is not one.
std::optional<nlohmann::ordered_json> read_arguments(std::string_view text);

} // namespace pumice
