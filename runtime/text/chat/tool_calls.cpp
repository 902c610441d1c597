#include "text/chat/tool_calls.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "text/chat/argument_types.h"
#include "text/chat/loose_values.h"
#include "text/unicode/unicode.h"

namespace pumice {

namespace {

using nlohmann::ordered_json;
using text::LooseReader;
using text::member;
using State = ReadCalls::State;

bool is_name(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), text::is_name_character);
}

bool is_nested(const ordered_json* value) {
  return value && value->is_object();
}

// {"name": "f", "arguments": {...}}, or "parameters", or {"function": {...}}; or {"f": {...}}.
std::optional<ToolCall> call_of(const ordered_json& object, const ordered_json& tools) {
  const ordered_json* inner = member(&object, "function");
  const ordered_json* call = is_nested(inner) ? inner : &object;
  const ordered_json *name = nullptr, *arguments = nullptr;
  for (const char* each : {"name", "tool_name", "function"})
    if (!name) name = member(call, each);
  // Another member with the name of a tool: {"tool": "f", "input": {...}}.
  if (!name && call->is_object()) {
    const auto offered = std::ranges::find_if(*call, [&](const ordered_json& each) {
      return each.is_string() && text::find_tool(tools, each.get_ref<const std::string&>());
    });
    if (offered != call->end()) name = &*offered;
  }
  for (const char* each : {"arguments", "parameters"})
    if (!arguments) arguments = member(call, each);
  if (!arguments && call->is_object()) {
    const auto nested =
        std::ranges::find_if(*call, [](const ordered_json& each) { return each.is_object(); });
    if (nested != call->end()) arguments = &*nested;
  }
  ToolCall made;
  if (name && name->is_string()) {
    made.name = *name;
  } else if (call->is_object() && call->size() == 1 && text::find_tool(tools, call->begin().key())) {
    made.name = call->begin().key();
    arguments = &call->front();
  } else {
    return std::nullopt;
  }
  if (arguments && arguments->is_string()) {
    ReadCalls read = read_arguments(arguments->get_ref<const std::string&>(), made.name, true);
    if (read.state != State::whole) return std::nullopt;
    made.arguments = std::move(read.calls[0].arguments);
  } else if (is_nested(arguments)) {
    made.arguments = *arguments;
  } else if (arguments && !arguments->is_null()) {
    return std::nullopt;
  }
  for (const char* each : {"id", "tool_call_id"}) {
    const ordered_json* id = member(&object, each);
    if (id && id->is_string()) made.id = *id;
  }
  return made;
}

// A tag with what it names: <function=f>, <parameter name="a" string="true">.
struct Tag {
  std::string_view element, name, all;

  static std::optional<Tag> of(std::string_view text) {
    const size_t length = mark_length(text);
    if (length < 3) return std::nullopt;
    Tag tag;
    tag.all = text.substr(1, length - 2);
    tag.element = tag.all.substr(0, tag.all.find_first_of(" ="));
    size_t value = tag.all.find(" name=");
    value = tag.all.find('=', value == std::string_view::npos ? 0 : value);
    if (value == std::string_view::npos) return tag;
    tag.name = tag.all.substr(value + 1);
    const bool quoted = tag.name.starts_with('"');
    tag.name.remove_prefix(quoted);
    tag.name = tag.name.substr(0, tag.name.find(quoted ? '"' : ' '));
    return tag;
  }
  std::string end() const { return "</" + std::string(element) + ">"; }
};

// Reads calls from the beginning of a text. Whatever fails has read up to what is wrong, which at the end of
// the text may still come right.
class CallReader {
public:
  CallReader(std::string_view text, const AnswerMarks& marks, const ordered_json& tools, bool ended)
      : text_(text), marks_(marks), tools_(tools), ended_(ended) {}

  ReadCalls read() {
    const size_t given = text_.size();
    const bool whole = skip_begins() && read_any() && end_block() && !calls_.empty();
    if (whole) return {State::whole, std::move(calls_), given - text_.size(), std::move(left_)};
    return {text_.empty() && !ended_ ? State::cut : State::none};
  }

private:
  void skip_space() { text_.remove_prefix(text_.size() - left().size()); }
  std::string_view left() const { // but for white space
    return text_.substr(std::min(text_.find_first_not_of(text::ascii_white_space), text_.size()));
  }
  bool skip(std::string_view expected) {
    if (!left().starts_with(expected)) return false;
    skip_space();
    text_.remove_prefix(expected.size());
    return true;
  }
  bool fail_at_end() { // for what may follow
    text_ = {};
    return false;
  }
  bool refuse() { // whatever follows
    text_ = " ";
    return false;
  }
  bool is_beginning(std::string_view mark) const { // of a mark, which has not arrived
    return !ended_ && text_.size() < mark.size() && mark.starts_with(text_);
  }
  const std::string* next_end() const {
    for (const std::string& end : marks_.call_ends)
      if (left().starts_with(end)) return &end;
    return nullptr;
  }

  // Marks before a call, but tags with a name, which are a part of it.
  bool skip_begins() {
    for (bool more = true; more;) {
      more = false;
      skip_space();
      for (const std::string& begin : marks_.call_begins) {
        if (begin.ends_with('=') || begin.ends_with('"')) continue;
        if (is_beginning(begin)) return fail_at_end();
        if (!skip(begin)) continue;
        more = true;
        if (!begin.ends_with('[')) continue;
        text_ = {text_.data() - 1, text_.size() + 1}; // of the call
        return true;
      }
    }
    if (is_beginning("```")) return fail_at_end();
    if (!text_.starts_with("```")) return true;
    text_.remove_prefix(mark_length(text_));
    return fenced_ = true;
  }

  // A block of Python may have several calls, one after the other. What is none of them ends it.
  bool read_more_python() {
    while (skip(";")) {
    }
    const std::string_view before = text_;
    const size_t count = calls_.size();
    skip_space();
    if (text_.empty() || text_.starts_with("```") || is_beginning("```")) return true;
    if (read_named()) return read_more_python();
    if (text_.empty() && !ended_) return false; // it may still become a call
    text_ = before;
    calls_.erase(calls_.begin() + static_cast<ptrdiff_t>(count), calls_.end());
    return true;
  }

  bool end_block() {
    if (python_ && fenced_ && !read_more_python()) return false;
    if (!fenced_ || skip("```")) return true;
    skip_space();
    return is_beginning("```") ? fail_at_end() : true;
  }

  bool read_any() {
    skip_space();
    if (text_.starts_with('{')) return read_object();
    if (text_.starts_with('[')) return read_list();
    if (text_.starts_with("<server_name>") || text_.starts_with("<tool_name>")) return read_elements();
    if (text_.starts_with('<')) return read_tag();
    return read_named();
  }

  std::optional<ordered_json> value() {
    LooseReader reader(text_);
    LooseReader::Value value = reader.value();
    text_ = reader.rest();
    return value;
  }

  std::optional<ordered_json> object() {
    std::optional<ordered_json> object = value();
    if (object && !object->is_object()) object.reset();
    return object;
  }

  bool add(const ordered_json& object) {
    std::optional<ToolCall> call = call_of(object, tools_);
    if (call) calls_.push_back(*std::move(call));
    return call.has_value();
  }

  bool read_object() {
    const std::optional<ordered_json> object = value();
    return object && (add(*object) || refuse());
  }

  bool read_list() {
    const std::string_view whole = text_;
    skip("[");
    if (left().empty()) return fail_at_end();
    if (left().starts_with('{')) {
      text_ = whole;
      const std::optional<ordered_json> list = value();
      if (!list) return false;
      take_calls(whole);
      return !calls_.empty() || refuse();
    }
    while (!skip("]")) {
      if (!read_python(word())) return false;
      if (!skip(",") && left().empty()) return fail_at_end();
    }
    return true;
  }

  // Of a list of objects, as it stands.
  void take_calls(std::string_view list) {
    LooseReader reader(list.substr(1));
    while (!reader.skip("]")) {
      const std::string_view before = reader.rest();
      const LooseReader::Value each = reader.value();
      if (!each) return;
      if (!add(*each)) {
        const std::string_view text = text::trimmed(before.substr(0, before.size() - reader.rest().size()));
        left_ += (left_.empty() ? "" : ", ") + std::string(text);
      }
      reader.skip(",");
    }
  }

  std::string word() {
    skip_space();
    size_t length = 0;
    while (length < text_.size() && (text::is_name_character(text_[length]) || text_[length] == ':'))
      ++length;
    std::string word(text_.substr(0, length));
    text_.remove_prefix(length);
    return word;
  }

  // What follows the name in f(a=1).
  bool read_python(std::string name) {
    constexpr std::string_view method = ".call"; // of Llama's own tools
    if (!is_name(name) || !text_.starts_with('(')) return false;
    if (name.ends_with(method)) name.resize(name.size() - method.size());
    python_ = true;
    // A room before the name, as in default_api.weather().
    const size_t dot = name.rfind('.') + 1; // 0: there is none
    if (!text::find_tool(tools_, name) && text::find_tool(tools_, name.substr(dot))) name.erase(0, dot);
    LooseReader reader(text_.substr(1));
    LooseReader::Value arguments = reader.python_arguments(text::properties_of(tools_, name));
    text_ = reader.rest();
    if (!arguments) return false;
    calls_.push_back({std::move(name), *std::move(arguments)});
    return true;
  }

  // <function=f> with parameters as tags or as an object, and its end.
  bool read_tag() {
    const std::optional<Tag> tag = take_tag();
    if (!tag) return false;
    if (!is_name(tag->name)) return refuse();
    ToolCall call{std::string(tag->name)};
    if (left().starts_with('{')) {
      std::optional<ordered_json> arguments = object();
      if (!arguments) return false;
      call.arguments = *std::move(arguments);
    }
    const std::string end = tag->end();
    while (left().starts_with('<') && !left().starts_with(end) && !next_end()) {
      skip_space();
      if (is_beginning(end)) return fail_at_end();
      const std::optional<Tag> parameter = take_tag();
      if (!parameter || parameter->name.empty()) return false;
      const std::string next = "<" + std::string(parameter->element);
      std::optional<std::string_view> value = take_value(parameter->end(), {next, end});
      if (!value) return false;
      const bool first = value->starts_with('\n'), last = value->size() > first && value->ends_with('\n');
      if (first && (last || !marks_.tight_values)) value->remove_prefix(1);
      if (last && (first || !marks_.tight_values)) value->remove_suffix(1);
      const bool quoted = parameter->all.find(" string=\"true\"") != std::string_view::npos;
      set(call, std::string(parameter->name), *value, quoted);
    }
    if (!skip(end) && !next_end() && !(ended_ && left().empty())) {
      if (left().empty()) fail_at_end();
      return false;
    }
    calls_.push_back(std::move(call));
    return true;
  }

  // <server_name>s</server_name> <tool_name>f</tool_name> <arguments>{...}</arguments>
  bool read_elements() {
    ToolCall call;
    while (!skip("<arguments>")) {
      const std::optional<Tag> tag = take_tag();
      if (!tag) return false;
      if (tag->all != "server_name" && tag->all != "tool_name") return refuse();
      const size_t end = text_.find(tag->end());
      if (end == std::string_view::npos) return fail_at_end();
      if (tag->all == "tool_name") call.name = text::trimmed(text_.substr(0, end));
      text_.remove_prefix(end + tag->end().size());
      if (left().empty()) return fail_at_end();
    }
    if (!is_name(call.name)) return refuse();
    std::optional<ordered_json> arguments = object();
    if (!arguments) return false;
    call.arguments = *std::move(arguments);
    if (!skip("</arguments>")) {
      skip_space();
      return is_beginning("</arguments>") ? fail_at_end() : refuse();
    }
    calls_.push_back(std::move(call));
    return true;
  }

  // The call within print(f(a=1)), as Gemma 3 writes it.
  bool read_printed() {
    text_.remove_prefix(1);
    if (left().empty()) return fail_at_end();
    if (!read_python(word())) return false;
    return skip(")") || (left().empty() && fail_at_end());
  }

  void set(ToolCall& call, const std::string& argument, std::string_view value, bool quoted) {
    call.arguments[argument] =
        quoted ? ordered_json(std::string(value)) : text::typed_argument(value, tools_, call.name, argument);
  }

  std::optional<Tag> take_tag() {
    constexpr size_t longest = 80;
    skip_space();
    const std::optional<Tag> tag = Tag::of(text_);
    if (tag) {
      text_.remove_prefix(tag->all.size() + 2);
    } else if (text_.size() < longest && text_.find_first_of(">\n") == std::string_view::npos) {
      fail_at_end();
    }
    return tag;
  }

  // Takes a value up to its end: that which something follows that may come after a value.
  std::optional<std::string_view> take_value(std::string_view end,
                                             std::array<std::string_view, 2> followers) {
    const std::string_view whole = text_;
    for (size_t at = whole.find(end); at != std::string_view::npos; at = whole.find(end, at + 1)) {
      text_ = whole.substr(at + end.size());
      skip_space();
      const bool follows =
          std::ranges::any_of(followers, [&](std::string_view each) { return text_.starts_with(each); });
      const std::string* mark = next_end();
      if (follows || (mark && *mark != end) || (ended_ && text_.empty())) return whole.substr(0, at);
      const auto begun = [&](std::string_view each) { return is_beginning(each); };
      if (std::ranges::any_of(followers, begun) || std::ranges::any_of(marks_.call_ends, begun)) break;
    }
    fail_at_end();
    return std::nullopt;
  }

  // A name, with its arguments behind it in one of several ways.
  bool read_named() {
    const bool gemma = skip("call:");
    std::vector<std::string> words = {word()};
    if (words[0].empty()) return false;
    if (!gemma && left().starts_with('=') && !left().starts_with("==")) { // result = weather(...)
      skip("=");
      words[0] = word();
      if (!text_.starts_with('(')) return false;
    }
    if (gemma && !text_.starts_with('{')) return false;
    const auto offered = [&] { return text::find_tool(tools_, words[0]) != nullptr; };
    if (text_.starts_with('(') && words[0] == "print" && !offered()) return read_printed();
    if (text_.starts_with('(')) return read_python(std::move(words[0]));
    while (!left().starts_with('{')) {
      skip_space();
      if (!marks_.call_middle.empty()) {
        if (is_beginning(marks_.call_middle)) return fail_at_end();
        if (skip(marks_.call_middle)) continue;
      }
      const size_t mark = mark_length(text_);
      const bool block = text_.starts_with("```");
      if ((next_end() && !block) ||
          (ended_ && text_.empty())) { // without arguments: a word alone may be anything
        if (offered()) calls_.push_back({words[0]});
        return offered();
      }
      if (mark == 0) { // there is none, or it has not arrived
        constexpr size_t longest = 80;
        if (text_.find_first_of("<[`") == 0 && text_.size() < longest) fail_at_end();
        return false;
      }
      if (const std::optional<Tag> tag = Tag::of(text_); tag && is_name(tag->name)) return read_tag();
      const std::string_view inner = text_.substr(mark);
      const size_t next = inner.find_first_not_of(text::ascii_white_space);
      if (next == std::string_view::npos) return fail_at_end();
      const bool is_pair = text_.starts_with('<') && inner.find_first_of("<{[", next) != next &&
                           std::isalpha(static_cast<unsigned char>(text_[1]));
      if (is_pair) return read_pairs(std::move(words));
      fenced_ = fenced_ || block;
      text_ = inner;
      if (std::string more = word(); !more.empty()) words.push_back(std::move(more));
    }
    std::optional<ordered_json> arguments = object();
    if (!arguments) return false;
    return add_named(words, *std::move(arguments));
  }

  // NAME, then <arg_key>KEY</arg_key><arg_value>VALUE</arg_value> for each argument.
  bool read_pairs(std::vector<std::string> words) {
    ToolCall call{words[0]};
    std::string element;
    while (left().starts_with('<') && !next_end()) {
      const std::optional<Tag> key_tag = take_tag();
      if (!key_tag || (!element.empty() && element != key_tag->element)) return false;
      element = key_tag->element;
      const std::string end = key_tag->end();
      const size_t key_end = text_.find(end);
      if (key_end == std::string_view::npos) return fail_at_end();
      const std::string key(text::trimmed(text_.substr(0, key_end)));
      text_.remove_prefix(key_end + end.size());
      if (left().empty()) return fail_at_end();
      const std::optional<Tag> value_tag = take_tag();
      if (!value_tag) return false;
      const std::string next = "<" + element;
      const std::optional<std::string_view> value = take_value(value_tag->end(), {next, next});
      if (!value) return false;
      set(call, key, *value, false);
    }
    if (!next_end() && !(ended_ && left().empty())) return left().empty() ? fail_at_end() : false;
    calls_.push_back(std::move(call));
    return true;
  }

  // "function" may stand before a name, an id beside it; Kimi's ids are functions.NAME:NUMBER.
  bool add_named(std::vector<std::string>& words, ordered_json arguments) {
    if (words.size() > 1 && words[0] == "function") words.erase(words.begin());
    if (words.size() > 1 && !text::find_tool(tools_, words[0]) && text::find_tool(tools_, words[1]))
      std::swap(words[0], words[1]); // the id is first
    ToolCall call{words[0], std::move(arguments), words.size() > 1 ? words[1] : ""};
    constexpr std::string_view room = "functions.";
    const size_t number = call.name.find(':');
    if (number != std::string::npos) {
      call.id = call.name;
      call.name.resize(number);
    }
    if (call.name.starts_with(room)) call.name.erase(0, room.size());
    if (!is_name(call.name)) return refuse();
    calls_.push_back(std::move(call));
    return true;
  }

  std::string_view text_; // that is left
  const AnswerMarks& marks_;
  const ordered_json& tools_;
  const bool ended_;
  bool fenced_ = false; // a block of code is around the call
  bool python_ = false; // which is Python's
  std::vector<ToolCall> calls_;
  std::string left_;
};

} // namespace

ReadCalls read_arguments(std::string_view text, const std::string& function, bool ended) {
  LooseReader reader(text);
  LooseReader::Value object = reader.value();
  if (!object || !object->is_object()) return {object || ended || !reader.ended() ? State::none : State::cut};
  return {State::whole, {{function, *std::move(object)}}, text.size() - reader.rest().size()};
}

ReadCalls read_calls(std::string_view text, const AnswerMarks& marks, const ordered_json& tools, bool ended) {
  if (marks.shown) {
    ReadCalls read = marks.shown->read(text, tools, ended);
    if (read.state != State::none) return read;
  }
  return CallReader(text, marks, tools, ended).read();
}

} // namespace pumice
