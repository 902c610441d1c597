#include "text/chat/chat_answer.h"

#include <algorithm>
#include <array>
#include <utility>

#include "text/chat/argument_types.h"
#include "text/chat/channel_header.h"
#include "text/chat/loose_values.h"
#include "text/unicode/unicode.h"

namespace pumice {

using Kind = AnswerPart::Kind;

namespace {

// The most text that is held back until it is known to be no thought.
constexpr size_t longest_thought = 16 << 10;
constexpr std::string_view channel_start = "<|start|>", channel_text = "<|message|>";
constexpr std::string_view recipient_mark = ">>>";
constexpr std::array<std::string_view, 3> channel_ends = {"<|end|>", "<|return|>", "<|call|>"};

bool is_blank(std::string_view text) {
  return text::trimmed(text).empty();
}

// The length of the longest end of the text that a mark may begin with.
size_t begun_mark(std::string_view text, std::string_view mark) {
  for (size_t length = std::min(mark.size() - 1, text.size()); length > 0; --length) {
    if (text.ends_with(mark.substr(0, length))) return length;
  }
  return 0;
}

// Whether a text begins with one of these words, or, as far as it goes, may do so.
bool may_begin(std::string_view text, std::string_view word) {
  return text.starts_with(word) || word.starts_with(text);
}

} // namespace

void Answered::add(const AnswerPart& part) {
  if (part.kind == Kind::tool_call) {
    tool_calls.push_back(part.call);
  } else {
    (part.kind == Kind::content ? content : thinking) += part.text;
  }
}

nlohmann::ordered_json Answered::message(const char* thinking_member) const {
  nlohmann::ordered_json message = {{"role", "assistant"}, {"content", content}};
  if (!thinking.empty()) message[thinking_member] = thinking;
  for (const ToolCall& call : tool_calls) {
    nlohmann::ordered_json made = {{"type", "function"},
                                   {"function", {{"name", call.name}, {"arguments", call.arguments}}}};
    if (!call.id.empty()) made["id"] = call.id;
    message["tool_calls"].push_back(std::move(made));
  }
  return message;
}

AnswerParser::AnswerParser(AnswerMarks marks, std::string_view prompt, nlohmann::ordered_json tools,
                           bool may_think)
    : marks_(std::move(marks)), tools_(std::move(tools)) {
  prompt = text::trimmed(prompt);
  for (const AnswerMarks::Pair& each : marks_.content) {
    if (!each.end.empty() && prompt.ends_with(each.begin)) enter(Kind::content, each.end);
  }
  for (const AnswerMarks::Pair& each : marks_.thinking) {
    if (prompt.ends_with(each.begin)) enter(Kind::thinking, each.end);
    if (prompt.ends_with(each.end)) thought_ = true;
  }
  may_be_thought_ = marks_.shows_thinking && may_think && !thought_ && !inside_;
  find_openings();
  // The prompt may have begun the mark of a call.
  const auto begun_too = [&](const AnswerMarks::Pair& each) { return each.begin.starts_with(marks_.head); };
  if (marks_.shown && !marks_.head.empty() && prompt.ends_with(marks_.head) &&
      marks_.shown->begin.starts_with(marks_.head) &&
      (!tools_.empty() || std::ranges::any_of(marks_.content, begun_too))) {
    begun_ = marks_.head.size();
    held_ = std::exchange(marks_.head, {});
  }
  // How calls are written may stand in what a person told the model, as for MiroThinker.
  constexpr std::string_view told = "<use_mcp_tool>";
  if (prompt.find(told) != std::string_view::npos) {
    marks_.call_begins.emplace_back(told);
    marks_.call_ends.emplace_back("</use_mcp_tool>");
  }
  if (marks_.recipients && prompt.ends_with(recipient_mark)) {
    begun_header_ = recipient_mark;
    state_ = State::header;
  }
  const size_t start = marks_.channels ? prompt.rfind(channel_start) : std::string_view::npos;
  if (start == std::string_view::npos) return;
  const std::string_view header = prompt.substr(start);
  if (header.find(channel_text) < header.size() - channel_text.size()) return; // it ends within a text
  begun_header_ = header;
  state_ = State::header;
  if (header.ends_with(channel_text)) step_header(false);
}

// A call whose first mark is missing is one if a mark that ends calls follows it.
void AnswerParser::find_openings() {
  if (tools_.empty() || marks_.call_ends.empty() || marks_.channels) return;
  std::vector<std::string> keys = {"name", "tool_name"};
  for (const std::string& name : text::names_of_tools(tools_)) {
    for (const char* next : {"(", "<", "\n<", "{", "\n{", "["}) openings_.push_back(name + next);
    keys.push_back(name);
  }
  for (const std::string& key : keys)
    for (const char* bracket : {"{\"", "[{\""}) openings_.push_back(bracket + key + "\"");
  constexpr size_t least = 5; // bytes of what is no usual beginning of JSON
  if (marks_.call_opening.size() >= least) openings_.push_back(marks_.call_opening);
}

std::vector<AnswerPart> AnswerParser::push(std::string_view piece) {
  held_ += piece;
  while (step(false)) {
  }
  return std::exchange(parts_, {});
}

std::vector<AnswerPart> AnswerParser::finish() {
  while (step(true)) {
  }
  if (!inside_) append(kind_, std::exchange(spaces_, {}));
  return std::exchange(parts_, {});
}

// Returns whether there is more to do with what is held.
bool AnswerParser::step(bool ended) {
  switch (state_) {
  case State::text:
    return step_text(ended);
  case State::call:
    return step_call(ended);
  case State::called:
    return step_called(ended);
  case State::header:
    return step_header(ended);
  }
  return false;
}

// Whether nothing was said yet, or nothing since the last mark.
bool AnswerParser::is_fresh() const {
  return at_mark_ || (kind_ == Kind::content && !has_content_);
}

// The marks that mean something where the text stands.
std::vector<AnswerParser::Sought> AnswerParser::sought() const {
  if (marks_.channels) {
    std::vector<Sought> all = {
        {channel_start, Meaning::header}, {"<|channel|>", Meaning::header}, {channel_text, Meaning::nothing}};
    for (const std::string_view end : channel_ends) all.push_back({end, Meaning::end});
    return all;
  }
  std::vector<Sought> all;
  if (marks_.recipients) all.push_back({recipient_mark, Meaning::header});
  if (inside_) all.push_back({end_, Meaning::end});
  const bool outside = !inside_ && kind_ == Kind::content;
  for (const AnswerMarks::Pair& each : marks_.thinking) {
    if (kind_ == Kind::thinking) all.push_back({each.begin, Meaning::nothing, Where::first});
    if (!outside) continue;
    if (!marks_.thinking_first || !thought_)
      all.push_back({each.begin, Meaning::begin, marks_.thinking_first ? Where::first : Where::anywhere,
                     Kind::thinking, each.end});
    if (!marks_.thinking_first && !thought_) all.push_back({each.end, Meaning::thought});
  }
  for (const AnswerMarks::Pair& each : marks_.content) {
    if (!outside) continue;
    if (each.end.empty()) {
      all.push_back({each.begin, Meaning::end});
      continue;
    }
    all.push_back({each.begin, Meaning::begin, Where::anywhere, Kind::content, each.end});
    all.push_back({each.end, Meaning::end}); // as if it had begun
  }
  for (const std::string& mark : marks_.call_begins) all.push_back({mark, Meaning::call});
  if (outside && !marks_.head.empty()) all.push_back({marks_.head, Meaning::nothing, Where::first});
  for (const std::string& opening : openings_)
    if (outside) all.push_back({opening, Meaning::call, Where::line});
  if (!unclosed_) return all;
  for (const std::string& mark : marks_.call_ends) all.push_back({mark, Meaning::nothing});
  return all;
}

bool AnswerParser::may_stand(const Sought& sought, size_t at) const {
  const std::string_view before = std::string_view(held_).substr(0, at);
  if (sought.where == Where::first) return is_fresh() && is_blank(before);
  if (sought.where == Where::anywhere) return true;
  const size_t line = before.rfind('\n');
  if (line != std::string_view::npos) return is_blank(before.substr(line));
  return is_blank(before) && (is_fresh() || spaces_.find('\n') != std::string::npos);
}

AnswerParser::Found AnswerParser::find(const std::vector<Sought>& sought) const {
  Found found;
  for (const Sought& each : sought) {
    size_t at = held_.find(each.mark);
    while (at != std::string::npos && !may_stand(each, at)) at = held_.find(each.mark, at + 1);
    const bool longer = each.mark.size() > found.what.mark.size();
    if (at < found.at || (at == found.at && at != std::string::npos && longer)) found = {at, each};
  }
  return found;
}

// Whether a longer mark may stand where one was found, of which not all has arrived.
bool AnswerParser::may_be_longer(const Found& found, const std::vector<Sought>& sought) const {
  return std::ranges::any_of(sought, [&](const Sought& each) {
    const size_t at = held_.size() - begun_mark(held_, each.mark);
    return at <= found.at && may_stand(each, at);
  });
}

// How much of what is held may be the beginning of a mark.
size_t AnswerParser::begun(const std::vector<Sought>& sought) const {
  size_t longest = 0;
  for (const Sought& each : sought) {
    const size_t begun = begun_mark(held_, each.mark);
    if (begun > longest && may_stand(each, held_.size() - begun)) longest = begun;
  }
  return longest;
}

bool AnswerParser::step_text(bool ended) {
  const Bare bare = begins_bare_call();
  if (bare == Bare::cut && !ended) return false;
  if (bare == Bare::yes) {
    begin_call({}, !marks_.bare_calls);
    return true;
  }
  const std::vector<Sought> all = sought();
  const Found found = find(all);
  const bool is_found = found.at != std::string::npos;
  if (is_found && !ended && may_be_longer(found, all)) return false;
  if (begun_ > 0) {
    const bool calls = found.at == 0 && found.what.meaning == Meaning::call;
    if (calls) { // or plain text, or a thought: that shows when it is read
      take(found.what);
      return true;
    }
    if (found.at > 0 || found.what.mark.size() < begun_) {
      if (!ended && begun(all) == held_.size()) return false;
      forget_begun();
      return true;
    }
    begun_ = 0;
  }
  if (may_be_thought_ && !is_found && !ended && held_.size() < longest_thought) return false;
  const bool was_thought = std::exchange(may_be_thought_, false) && found.what.meaning == Meaning::thought &&
                           found.at < longest_thought;
  const size_t said = is_found ? found.at : held_.size() - (ended ? 0 : begun(all));
  say(was_thought ? Kind::thinking : kind_, std::string_view(held_).substr(0, said));
  held_.erase(0, said);
  if (is_found) take(found.what);
  return is_found;
}

// What the prompt ends with has begun no mark: it is not the model's text.
void AnswerParser::forget_begun() {
  marks_.head = held_.substr(0, begun_);
  held_.erase(0, begun_);
  begun_ = 0;
  state_ = State::text;
}

void AnswerParser::take(const Sought& what) {
  if (what.meaning == Meaning::header) {
    state_ = State::header;
    return;
  }
  if (what.meaning == Meaning::call) {
    needs_end_ = what.where == Where::line;
    begin_call(what.mark,
               needs_end_ || kind_ == Kind::thinking || what.mark == "```" || what.mark == "```json");
    return;
  }
  held_.erase(0, what.mark.size());
  if (what.where == Where::first) at_mark_ = true;
  if (what.meaning == Meaning::begin) enter(what.kind, what.end);
  if (what.meaning == Meaning::end || what.meaning == Meaning::thought) leave();
  thought_ = thought_ || what.meaning == Meaning::thought;
}

void AnswerParser::enter(Kind kind, std::string_view end) {
  kind_ = kind;
  inside_ = true;
  end_ = end;
  thought_ = thought_ || kind == Kind::thinking;
  spaces_.clear();
  at_mark_ = true;
}

void AnswerParser::leave() {
  kind_ = Kind::content;
  inside_ = false;
  spaces_.clear();
  at_mark_ = true;
}

// An answer may begin with a call that no mark stands before: an object with the members of one, or a list in
// Python's way.
AnswerParser::Bare AnswerParser::begins_bare_call() const {
  if (inside_ || has_content_ || refused_bare_ || tools_.empty() || marks_.channels) return Bare::no;
  std::string_view text = text::trimmed(held_);
  if (marks_.bare_names) {
    const auto end = std::ranges::find_if_not(text, text::is_name_character);
    const std::string_view name = text.substr(0, static_cast<size_t>(end - text.begin()));
    if (name.size() < text.size() && text::find_tool(tools_, name)) return Bare::yes;
    const auto begins = [&](const std::string& each) { return each.starts_with(name); };
    if (!name.empty() && name.size() == text.size() &&
        std::ranges::any_of(text::names_of_tools(tools_), begins))
      return Bare::cut;
  }
  const bool list = text.starts_with('[');
  if (list) text = text::trimmed(text.substr(1));
  if (text.empty()) return list ? Bare::cut : Bare::no;
  if (text[0] == '{') {
    text = text::trimmed(text.substr(1));
    for (const char* key : {"\"name\"", "\"tool_name\"", "\"type\""}) {
      if (may_begin(text, key) && (marks_.bare_calls || key != std::string_view("\"type\"")))
        return text.starts_with(key) ? Bare::yes : Bare::cut;
    }
    return Bare::no;
  }
  if (!list) return Bare::no;
  const std::string_view name = text.substr(0, text.find('('));
  if (name.size() < text.size()) return text::find_tool(tools_, name) ? Bare::yes : Bare::no;
  return std::ranges::all_of(name, text::is_name_character) ? Bare::cut : Bare::no;
}

void AnswerParser::begin_call(std::string_view mark, bool weak) {
  state_ = State::call;
  mark_ = mark.size();
  tried_ = 0;
  weak_ = weak;
}

bool AnswerParser::are_offered(const std::vector<ToolCall>& calls) const {
  return tools_.empty() || std::ranges::all_of(calls, [&](const ToolCall& call) {
           return text::find_tool(tools_, call.name) != nullptr;
         });
}

// Whether an object that has not ended may name a tool that was offered.
bool AnswerParser::may_be_offered(std::string_view object) const {
  const size_t key = object.find("name\"");
  if (key == std::string_view::npos || !tools_.is_array()) return true;
  text::LooseReader reader(object.substr(key + std::string_view("name\"").size()));
  if (!reader.skip(":") || !reader.skip("\"")) return true;
  const std::string_view rest = reader.rest(), name = rest.substr(0, rest.find('"'));
  return std::ranges::any_of(tools_, [&](const nlohmann::ordered_json& tool) {
    const nlohmann::ordered_json* inner = text::member(&tool, "function");
    const nlohmann::ordered_json* offered = text::member(inner ? inner : &tool, "name");
    if (!offered || !offered->is_string()) return false;
    const std::string_view whole = offered->get_ref<const std::string&>();
    return name.size() < rest.size() ? whole == name : whole.starts_with(name);
  });
}

bool AnswerParser::step_call(bool ended) {
  // What is no call shows that soon; one ends with one of these.
  constexpr size_t soon = 256;
  const bool closes = held_.find_first_of("})>]", tried_) != std::string::npos;
  tried_ = held_.size();
  if (!closes && held_.size() > soon && !ended) return false;
  const std::string_view held = held_;
  const size_t begin = function_.empty() ? 0 : mark_;
  ReadCalls read = begun_ > 0          ? marks_.shown->read(held, tools_, ended)
                   : function_.empty() ? read_calls(held, marks_, tools_, ended)
                                       : read_arguments(held.substr(begin), function_, ended);
  if (read.state == ReadCalls::State::cut && (!weak_ || may_be_offered(held))) return false;
  if (read.state != ReadCalls::State::whole || (weak_ && !are_offered(read.calls))) return refuse_call(ended);
  if (needs_end_) {
    const std::string_view rest = text::trimmed(held.substr(read.length));
    const auto ends = [&](const std::string& mark) { return rest.starts_with(mark); };
    const auto may_end = [&](const std::string& mark) { return !ended && mark.starts_with(rest); };
    if (std::ranges::any_of(marks_.call_ends, may_end)) return false;
    if (std::ranges::none_of(marks_.call_ends, ends)) return refuse_call(ended);
    needs_end_ = false;
  }
  if (std::exchange(begun_, 0) > 0) may_be_thought_ = false;
  for (ToolCall& call : read.calls) parts_.push_back({Kind::tool_call, {}, std::move(call)});
  append(kind_, read.left);
  held_.erase(0, begin + read.length);
  state_ = State::called;
  function_.clear();
  spaces_.clear();
  at_mark_ = true;
  unclosed_ = true;
  return true;
}

// What looked like a call is text, as it is.
bool AnswerParser::refuse_call(bool ended) {
  if (begun_ > 0) {
    forget_begun();
    return true;
  }
  size_t whole = mark_;
  if (!function_.empty()) { // with all up to the end of the channel
    whole = held_.size();
    size_t length = 0;
    for (const std::string_view end : channel_ends) {
      const size_t at = held_.find(end, mark_);
      if (at < whole) {
        whole = at;
        length = end.size();
      }
    }
    if (length == 0 && !ended) return false;
    whole += length;
    function_.clear();
    leave();
  }
  if (whole > 0) {
    append(kind_, std::exchange(spaces_, {}));
    append(kind_, std::string_view(held_).substr(0, whole));
    at_mark_ = false;
  }
  refused_bare_ = true;
  needs_end_ = false;
  held_.erase(0, whole);
  state_ = State::text;
  return true;
}

// The marks behind a call belong to it, and more calls may follow.
bool AnswerParser::step_called(bool ended) {
  held_.erase(0, held_.find_first_not_of(" \t\r\n,;"));
  if (held_.empty()) return false;
  const auto comes = [&](const std::string& mark) { return held_.starts_with(mark); };
  const auto may_come = [&](const std::string& mark) { return !ended && mark.starts_with(held_); };
  if (marks_.channels || marks_.recipients) {
    leave();
    state_ = State::text;
  } else if (const auto end = std::ranges::find_if(marks_.call_ends, comes); end != marks_.call_ends.end()) {
    held_.erase(0, end->size());
    unclosed_ = false;
  } else if (std::ranges::any_of(marks_.call_ends, may_come) ||
             std::ranges::any_of(marks_.call_begins, may_come)) {
    return false;
  } else if (const auto begin = std::ranges::find_if(marks_.call_begins, comes);
             begin != marks_.call_begins.end()) {
    begin_call(*begin, weak_);
  } else if (unclosed_) {
    begin_call({}, weak_);
  } else {
    state_ = State::text;
  }
  return true;
}

// >>>NAME and a line end, before what is for that tool or, if the name is "all", for people.
bool AnswerParser::step_recipient(bool ended) {
  constexpr size_t longest = 128;
  const size_t begin = begun_header_.empty() ? recipient_mark.size() : 0;
  const size_t end = held_.find('\n', begin);
  if (end == std::string::npos && !ended && held_.size() < longest) return false;
  const std::string name(text::trimmed(std::string_view(held_).substr(begin, end - begin)));
  begun_header_.clear();
  state_ = State::text;
  if (end != std::string::npos && name == "all") {
    held_.erase(0, end + 1);
    leave();
  } else if (end != std::string::npos && are_offered({{name}}) && !name.empty() &&
             std::ranges::all_of(name, text::is_name_character)) {
    function_ = name;
    state_ = State::call;
    mark_ = tried_ = end + 1;
    weak_ = false;
  } else { // text that looks like one
    say(kind_, std::string_view(held_).substr(0, begin));
    held_.erase(0, begin);
  }
  return true;
}

bool AnswerParser::step_header(bool ended) {
  if (marks_.recipients) return step_recipient(ended);
  using text::ChannelHeader;
  const size_t before = begun_header_.size();
  const ChannelHeader header = text::read_channel_header(begun_header_ + held_, tools_, ended);
  if (header.state == ChannelHeader::State::cut) return false;
  begun_header_.clear();
  state_ = State::text;
  mark_ = header.length > before ? header.length - before : 0;
  if (header.state == ChannelHeader::State::none && before > 0) return true;
  if (header.function.empty() || !header.has_text) {
    held_.erase(0, mark_);
    header.has_text ? enter(header.thinks ? Kind::thinking : Kind::content, {}) : leave();
  } else {
    function_ = header.function;
    state_ = State::call;
    tried_ = mark_;
    weak_ = false;
  }
  return true;
}

void AnswerParser::say(Kind kind, std::string_view text) {
  if (at_mark_) {
    const size_t begin = text.find_first_not_of(text::ascii_white_space);
    if (begin == std::string_view::npos) return;
    text.remove_prefix(begin);
    at_mark_ = false;
  }
  const size_t last = text.find_last_not_of(text::ascii_white_space);
  if (last == std::string_view::npos) {
    spaces_ += text;
    return;
  }
  append(kind, std::exchange(spaces_, {}));
  append(kind, text.substr(0, last + 1));
  spaces_ = text.substr(last + 1);
}

void AnswerParser::append(Kind kind, std::string_view text) {
  if (text.empty()) return;
  if (kind == Kind::content && !is_blank(text)) has_content_ = true;
  if (parts_.empty() || parts_.back().kind != kind) parts_.push_back({kind});
  parts_.back().text += text;
}

} // namespace pumice
