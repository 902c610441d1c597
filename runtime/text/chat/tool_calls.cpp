#include "text/chat/tool_calls.h"

#include <algorithm>
#include <array>
#include <utility>

#include "text/chat/loose_values.h"
#include "text/unicode/unicode.h"

namespace pumice {

namespace {

using nlohmann::ordered_json;
using Calls = std::vector<ToolCall>;

std::string_view trimmed(std::string_view text) {
  const size_t begin = text.find_first_not_of(text::ascii_white_space);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(text::ascii_white_space) - begin + 1);
}

// Removes white space from the beginning, and `expected` after it if the text goes on with that.
bool skip(std::string_view& text, std::string_view expected) {
  const size_t begin = std::min(text.find_first_not_of(text::ascii_white_space), text.size());
  if (!text.substr(begin).starts_with(expected)) return false;
  text.remove_prefix(begin + expected.size());
  return true;
}

// Takes the text before `end`, and removes both.
std::optional<std::string_view> take_until(std::string_view& text, std::string_view end) {
  const size_t at = text.find(end);
  if (at == std::string_view::npos) return std::nullopt;
  const std::string_view taken = text.substr(0, at);
  text.remove_prefix(at + end.size());
  return taken;
}

bool is_name(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), text::is_name_character);
}

// The length of the object or list that the text begins with; 0 if it does not, or is nested deeper than
// could be printed again.
size_t json_length(std::string_view text) {
  constexpr size_t most = 128;
  size_t depth = 0;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') ++i;
      if (c == '"') in_string = false;
    } else if (c == '"') {
      in_string = true;
    } else if (c == '{' || c == '[') {
      if (++depth > most) return 0;
    } else if ((c == '}' || c == ']') && --depth == 0) {
      return i + 1;
    }
    if (depth == 0) return 0;
  }
  return 0;
}

// Takes the JSON object or list that the text begins with.
std::optional<ordered_json> take_json(std::string_view& text) {
  skip(text, "");
  const size_t length = json_length(text);
  if (length == 0) return std::nullopt;
  ordered_json value = ordered_json::parse(text.substr(0, length), nullptr, false);
  if (value.is_discarded()) return std::nullopt;
  text.remove_prefix(length);
  return value;
}

std::optional<ordered_json> take_object(std::string_view& text) {
  std::optional<ordered_json> value = take_json(text);
  if (value && !value->is_object()) value.reset();
  return value;
}

const ordered_json* member(const ordered_json& object, const char* name) {
  if (!object.is_object()) return nullptr;
  const auto found = object.find(name);
  return found == object.end() ? nullptr : &*found;
}

// What a tool's list entry says of it, which may be wrapped: {"type": "function", "function": {...}}.
const ordered_json* find_tool(const ordered_json& tools, std::string_view name) {
  if (!tools.is_array()) return nullptr;
  for (const ordered_json& each : tools) {
    const ordered_json* inner = member(each, "function");
    const ordered_json& tool = inner ? *inner : each;
    const ordered_json* found = member(tool, "name");
    if (found && found->is_string() && found->get_ref<const std::string&>() == name) return &tool;
  }
  return nullptr;
}

bool wants_string(const ordered_json& tools, std::string_view tool, const std::string& argument) {
  const ordered_json* at = find_tool(tools, tool);
  for (const char* name : {"parameters", "properties", argument.c_str(), "type"}) {
    if (at) at = member(*at, name);
  }
  return at && *at == "string";
}

// A value that stands between tags: text for an argument that is a string, else JSON if it is that.
ordered_json value_between_tags(std::string_view text, bool string) {
  if (!string) {
    std::string_view rest = trimmed(text);
    const bool nests = rest.starts_with('{') || rest.starts_with('[');
    ordered_json value = nests ? take_json(rest).value_or(ordered_json(ordered_json::value_t::discarded))
                               : ordered_json::parse(rest, nullptr, false);
    if (!value.is_discarded() && !value.is_string() && (!nests || rest.empty())) return value;
  }
  return std::string(text);
}

// {"name": "f", "arguments": {...}}, or "parameters", or {"function": {...}}.
std::optional<ToolCall> call_of(const ordered_json& object) {
  const ordered_json* inner = member(object, "function");
  const ordered_json& call = inner && inner->is_object() ? *inner : object;
  const ordered_json* name = member(call, "name");
  if (!name || !name->is_string()) return std::nullopt;
  ToolCall made{*name};
  const ordered_json* arguments = member(call, "arguments");
  if (!arguments) arguments = member(call, "parameters");
  if (arguments && arguments->is_string()) {
    std::optional<ordered_json> read = read_arguments(arguments->get_ref<const std::string&>());
    if (!read) return std::nullopt;
    made.arguments = *std::move(read);
  } else if (arguments && arguments->is_object()) {
    made.arguments = *arguments;
  } else if (arguments && !arguments->is_null()) {
    return std::nullopt;
  }
  const ordered_json* id = member(object, "id");
  if (id && id->is_string()) made.id = *id;
  return made;
}

// Objects with something between them, or a list of them.
std::optional<Calls> read_json_calls(std::string_view text, const ordered_json&) {
  ordered_json list = ordered_json::array();
  if (text.starts_with('[')) {
    std::optional<ordered_json> read = take_json(text);
    if (!read || !trimmed(text).empty()) return std::nullopt;
    list = *std::move(read);
  }
  while (!trimmed(text).empty()) {
    std::optional<ordered_json> object = take_object(text);
    if (!object) return std::nullopt;
    list.push_back(*std::move(object));
    if (!skip(text, ";")) skip(text, ",");
  }
  Calls calls;
  for (const ordered_json& each : list) {
    std::optional<ToolCall> call = call_of(each);
    if (!call) return std::nullopt;
    calls.push_back(*std::move(call));
  }
  return calls;
}

// <function=NAME><parameter=KEY>VALUE</parameter></function>, or with a JSON object between the outer tags.
std::optional<Calls> read_function_tags(std::string_view text, const ordered_json& tools) {
  Calls calls;
  while (skip(text, "<function=")) {
    const std::optional<std::string_view> name = take_until(text, ">");
    if (!name || !is_name(*name)) return std::nullopt;
    ToolCall call{std::string(*name)};
    skip(text, "");
    if (text.starts_with('{')) {
      std::optional<ordered_json> arguments = take_object(text);
      if (!arguments) return std::nullopt;
      call.arguments = *std::move(arguments);
    }
    while (skip(text, "<parameter=")) {
      const std::optional<std::string_view> key = take_until(text, ">");
      std::optional<std::string_view> value = key ? take_until(text, "</parameter>") : std::nullopt;
      if (!value) return std::nullopt;
      if (value->starts_with('\n')) value->remove_prefix(1);
      if (value->ends_with('\n')) value->remove_suffix(1);
      const std::string argument(*key);
      call.arguments[argument] = value_between_tags(*value, wants_string(tools, call.name, argument));
    }
    if (!skip(text, "</function>")) return std::nullopt;
    calls.push_back(std::move(call));
  }
  if (!trimmed(text).empty()) return std::nullopt;
  return calls;
}

// NAME, then <arg_key>KEY</arg_key><arg_value>VALUE</arg_value> for each argument.
std::optional<Calls> read_argument_tags(std::string_view text, const ordered_json& tools) {
  const size_t end = std::min(text.find("<arg_key>"), text.size());
  ToolCall call{std::string(trimmed(text.substr(0, end)))};
  // A word alone may be anything.
  if (!is_name(call.name) || (end == text.size() && !find_tool(tools, call.name))) return std::nullopt;
  text.remove_prefix(end);
  while (skip(text, "<arg_key>")) {
    const std::optional<std::string_view> key = take_until(text, "</arg_key>");
    if (!key || !skip(text, "<arg_value>")) return std::nullopt;
    const std::optional<std::string_view> value = take_until(text, "</arg_value>");
    if (!value) return std::nullopt;
    const std::string argument(trimmed(*key));
    call.arguments[argument] = value_between_tags(*value, wants_string(tools, call.name, argument));
  }
  if (!trimmed(text).empty()) return std::nullopt;
  return Calls{std::move(call)};
}

// NAME[CALL_ID]ID[ARGS]{...}, where the id or both marks may be missing.
std::optional<Calls> read_argument_marks(std::string_view text, const ordered_json&) {
  Calls calls;
  while (!trimmed(text).empty()) {
    skip(text, "[TOOL_CALLS]");
    skip(text, "");
    const size_t end = std::min(text.find_first_of("[{"), text.size());
    ToolCall call{std::string(trimmed(text.substr(0, end)))};
    if (!is_name(call.name)) return std::nullopt;
    text.remove_prefix(end);
    if (skip(text, "[CALL_ID]")) {
      const size_t id_end = std::min(text.find_first_of("[{"), text.size());
      call.id = trimmed(text.substr(0, id_end));
      text.remove_prefix(id_end);
    }
    skip(text, "[ARGS]");
    std::optional<ordered_json> arguments = take_object(text);
    if (!arguments) return std::nullopt;
    call.arguments = *std::move(arguments);
    calls.push_back(std::move(call));
  }
  return calls;
}

// DeepSeek V3.1 writes NAME, the separator and an object, and the older models a type, the separator, NAME,
// and an object as a block of code.
std::optional<Calls> read_separated_calls(std::string_view text, const ordered_json&) {
  Calls calls;
  while (skip(text, "<｜tool▁call▁begin｜>")) {
    std::optional<std::string_view> body = take_until(text, "<｜tool▁call▁end｜>");
    if (!body) return std::nullopt;
    const std::optional<std::string_view> first = take_until(*body, "<｜tool▁sep｜>");
    if (!first) return std::nullopt;
    std::string_view name = trimmed(*first);
    if (!trimmed(*body).starts_with('{')) {
      const std::optional<std::string_view> second = take_until(*body, "```json");
      if (!second) return std::nullopt;
      name = trimmed(*second);
      *body = trimmed(*body);
      if (!body->ends_with("```")) return std::nullopt;
      body->remove_suffix(3);
    }
    std::optional<ordered_json> arguments = read_arguments(*body);
    if (!is_name(name) || !arguments) return std::nullopt;
    calls.push_back({std::string(name), *std::move(arguments), ""});
  }
  if (!trimmed(text).empty()) return std::nullopt;
  return calls;
}

// f(a=1) as Python has it, several or a list of them; or call:f{a:1}.
std::optional<Calls> read_loose_calls(std::string_view text, const ordered_json&) {
  if (text.starts_with('[') && text.ends_with(']')) text = text.substr(1, text.size() - 2);
  text::LooseReader reader(text);
  Calls calls;
  while (!reader.ended()) {
    std::optional<text::LooseReader::Call> call = reader.call();
    if (!call) return std::nullopt;
    constexpr std::string_view method = ".call"; // of Llama's own tools
    if (call->name.ends_with(method)) call->name.resize(call->name.size() - method.size());
    calls.push_back({std::move(call->name), std::move(call->arguments), ""});
    reader.skip(',');
  }
  return calls;
}

} // namespace

std::optional<ordered_json> read_arguments(std::string_view text) {
  std::optional<ordered_json> value = take_object(text);
  if (value && !trimmed(text).empty()) value.reset();
  return value;
}

std::optional<Calls> read_tool_calls(std::string_view text, const ordered_json& tools) {
  text = trimmed(text);
  // Each refuses what another one reads.
  for (const auto read : {read_json_calls, read_function_tags, read_argument_tags, read_argument_marks,
                          read_separated_calls, read_loose_calls}) {
    std::optional<Calls> calls = read(text, tools);
    if (calls && !calls->empty()) return calls;
  }
  return std::nullopt;
}

} // namespace pumice
