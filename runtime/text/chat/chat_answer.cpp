#include "text/chat/chat_answer.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <optional>
#include <utility>

#include "text/unicode/unicode.h"

namespace pumice {

using Kind = AnswerPart::Kind;

struct AnswerSection {
  enum class Holds { thinking, content, calls, channel };
  std::string_view seen;                // in the text of templates whose models write this
  std::string_view open;                // the mark that it begins with
  std::array<std::string_view, 3> ends; // marks that it ends with; empty: the end of the answer
  Holds holds = Holds::calls;
  bool with_marks = false; // the marks are parts of the calls
  bool first = false;      // only at the beginning of the content, and only where tools were offered
};

namespace {

using Holds = AnswerSection::Holds;

// No mark is a part of another one, so that the first one found is the one that is meant.
constexpr AnswerSection table[] = {
    // Qwen, DeepSeek, GLM, Granite, SmolLM, LFM2
    {"</think>", "<think>", {"</think>"}, Holds::thinking},
    {"<response>", "<response>", {"</response>"}, Holds::content},
    {"[THINK]", "[THINK]", {"[/THINK]"}, Holds::thinking},
    {"<seed:think>", "<seed:think>", {"</seed:think>"}, Holds::thinking},
    {"<|channel>", "<|channel>thought", {"<channel|>"}, Holds::thinking}, // Gemma 4
    // gpt-oss: <|channel|>analysis<|message|>...<|end|>, and the role before that
    {"<|channel|>", "<|start|>", {"<|end|>", "<|return|>", "<|call|>"}, Holds::channel},
    {"<|channel|>", "<|channel|>", {"<|end|>", "<|return|>", "<|call|>"}, Holds::channel},
    // Hermes, Qwen, GLM, Granite 4
    {"<tool_call>", "<tool_call>", {"</tool_call>"}},
    {"<function=", "<function=", {"</function>"}, Holds::calls, true},
    {"<seed:tool_call>", "<seed:tool_call>", {"</seed:tool_call>"}},
    {"[TOOL_CALLS]", "[TOOL_CALLS]", {}},                                           // Mistral
    {"<｜tool▁calls▁begin｜>", "<｜tool▁calls▁begin｜>", {"<｜tool▁calls▁end｜>"}}, // DeepSeek
    {"<|tool_call|>", "<|tool_call|>", {}},                                         // Granite 3
    {"List of tools: ", "<|tool_call_start|>", {"<|tool_call_end|>"}},              // LFM2
    {"<|tool_call>", "<|tool_call>", {"<tool_call|>"}},                             // Gemma 4
    {"<start_of_turn>", "```tool_code", {"```"}},                                   // Gemma 3
    {"<TOOLCALL>", "<TOOLCALL>", {"</TOOLCALL>"}},                                  // Nemotron
    // Llama 3
    {"<|python_tag|>", "<|python_tag|>", {}},
    {"\"parameters\": ", "{\"name\"", {}, Holds::calls, true, true},
    {"\"parameters\": ", "{\"type\"", {}, Holds::calls, true, true},
};

constexpr std::string_view channel_text = "<|message|>"; // between a channel's header and its text
constexpr std::string_view channel_start = "<|start|>";
constexpr size_t longest_header = 256;

bool is_blank(std::string_view text) {
  return text.find_first_not_of(text::ascii_white_space) == std::string_view::npos;
}

// The length of the longest end of the text that a mark may begin with.
size_t begun_mark(std::string_view text, std::string_view mark) {
  for (size_t length = std::min(mark.size() - 1, text.size()); length > 0; --length) {
    if (text.ends_with(mark.substr(0, length))) return length;
  }
  return 0;
}

struct Found {
  size_t at = std::string_view::npos;
  size_t length = 0;
};

Found first_end(std::string_view text, const AnswerSection& section, size_t from) {
  Found found;
  for (const std::string_view end : section.ends) {
    const size_t at = end.empty() ? std::string_view::npos : text.find(end, from);
    if (at < found.at) found = {at, end.size()};
  }
  return found;
}

// The name of the function that a channel's header has as its recipient; empty if it has none.
std::string function_of(std::string_view header) {
  constexpr std::string_view recipient = "to=", room = "functions.";
  const size_t at = header.find(recipient);
  if (at == std::string_view::npos) return {};
  std::string_view name = header.substr(at + recipient.size());
  name = name.substr(0, std::min(name.find_first_of(" \t\r\n<"), name.size()));
  if (name.starts_with(room)) name.remove_prefix(room.size());
  return std::string(name);
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

AnswerFormat AnswerFormat::of(std::string_view template_text) {
  AnswerFormat format;
  for (const AnswerSection& section : table) {
    if (template_text.find(section.seen) != std::string_view::npos) format.sections_.push_back(&section);
  }
  return format;
}

AnswerParser::AnswerParser(AnswerFormat format, std::string_view prompt, nlohmann::ordered_json tools)
    : format_(std::move(format)), tools_(std::move(tools)) {
  const size_t end = prompt.find_last_not_of(text::ascii_white_space);
  prompt = prompt.substr(0, end == std::string_view::npos ? 0 : end + 1);
  for (const AnswerSection* section : format_.sections()) {
    if (section->holds == Holds::thinking && prompt.ends_with(section->open)) {
      section_ = section;
      enter(Kind::thinking);
    }
    const size_t start =
        section->open == channel_start ? prompt.rfind(channel_start) : std::string_view::npos;
    if (start == std::string_view::npos) continue;
    begun_header_ = prompt.substr(start + channel_start.size());
    const size_t text = begun_header_.find(channel_text);
    section_ = section;
    state_ = State::header;
    if (text == std::string::npos) continue;
    if (text + channel_text.size() == begun_header_.size()) {
      open_channel(begun_header_);
    } else {
      state_ = State::outside; // the prompt ends within a text
    }
  }
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
  if (state_ == State::outside) append(Kind::content, std::exchange(spaces_, {}));
  return std::exchange(parts_, {});
}

// Returns whether there is more to do with what is held.
bool AnswerParser::step(bool ended) {
  switch (state_) {
  case State::outside:
    return step_outside(ended);
  case State::inside:
    return step_inside(ended);
  case State::call:
    return step_call(ended);
  case State::header:
    return step_header(ended);
  }
  return false;
}

bool AnswerParser::may_open(const AnswerSection& section, size_t at) const {
  if (!section.first) return true;
  return !has_content_ && !tools_.empty() && is_blank(std::string_view(held_).substr(0, at));
}

bool AnswerParser::step_outside(bool ended) {
  const AnswerSection* opened = nullptr;
  size_t at = std::string::npos, keep = 0;
  for (const AnswerSection* section : format_.sections()) {
    const size_t found = held_.find(section->open);
    if (found < at && may_open(*section, found)) {
      at = found;
      opened = section;
    }
    const size_t begun = begun_mark(held_, section->open);
    if (may_open(*section, held_.size() - begun)) keep = std::max(keep, begun);
  }
  const size_t said = opened ? at : held_.size() - (ended ? 0 : keep);
  say(Kind::content, std::string_view(held_).substr(0, said));
  held_.erase(0, said);
  if (opened) open(*opened);
  return opened != nullptr;
}

void AnswerParser::open(const AnswerSection& section) {
  section_ = &section;
  body_ = section.open.size();
  if (section.holds == Holds::channel) {
    state_ = State::header;
  } else if (section.holds == Holds::calls) {
    state_ = State::call;
    searched_ = body_;
  } else {
    held_.erase(0, section.open.size());
    enter(section.holds == Holds::thinking ? Kind::thinking : Kind::content);
  }
}

void AnswerParser::enter(Kind kind) {
  state_ = State::inside;
  kind_ = kind;
  spaces_.clear();
  at_mark_ = true;
}

void AnswerParser::leave() {
  state_ = State::outside;
  spaces_.clear();
  at_mark_ = true;
}

bool AnswerParser::step_inside(bool ended) {
  const Found end = first_end(held_, *section_, 0);
  size_t said = end.at;
  if (said == std::string::npos) {
    size_t keep = 0;
    for (const std::string_view mark : section_->ends) {
      if (!mark.empty() && !ended) keep = std::max(keep, begun_mark(held_, mark));
    }
    said = held_.size() - keep;
  }
  say(kind_, std::string_view(held_).substr(0, said));
  held_.erase(0, said + end.length);
  if (end.length == 0) return false;
  leave();
  return true;
}

bool AnswerParser::take_calls(std::string_view body) {
  std::optional<std::vector<ToolCall>> calls;
  if (function_.empty()) {
    calls = read_tool_calls(body, tools_);
  } else if (std::optional<nlohmann::ordered_json> arguments = read_arguments(body)) {
    calls.emplace();
    calls->push_back({function_, *std::move(arguments), ""});
  }
  if (!calls) return false;
  for (ToolCall& call : *calls) parts_.push_back({Kind::tool_call, {}, std::move(call)});
  return true;
}

bool AnswerParser::step_call(bool ended) {
  Found end = first_end(held_, *section_, searched_);
  if (end.at == std::string::npos) {
    size_t longest = 0;
    for (const std::string_view mark : section_->ends) longest = std::max(longest, mark.size());
    if (held_.size() > searched_ + longest) searched_ = held_.size() - longest;
    if (!ended) return false;
    end = {held_.size(), 0};
  }
  const size_t whole = end.at + end.length;
  const std::string_view held = held_;
  if (take_calls(section_->with_marks ? held.substr(0, whole) : held.substr(body_, end.at - body_))) {
    leave();
  } else {
    append(Kind::content, std::exchange(spaces_, {}));
    append(Kind::content, held.substr(0, whole));
    state_ = State::outside;
    at_mark_ = false;
  }
  function_.clear();
  held_.erase(0, whole);
  return !held_.empty();
}

bool AnswerParser::step_header(bool ended) {
  const size_t at = held_.find(channel_text);
  if (at <= longest_header) {
    open_channel(begun_header_ + held_.substr(0, at));
    body_ = searched_ = at + channel_text.size();
    if (state_ == State::inside) held_.erase(0, body_);
    return true;
  }
  if (at == std::string::npos && !ended && held_.size() < longest_header + channel_text.size()) return false;
  // There is no channel: the mark is content.
  const bool begun = !begun_header_.empty();
  begun_header_.clear();
  state_ = State::outside;
  if (begun) return true;
  say(Kind::content, std::string_view(held_).substr(0, section_->open.size()));
  held_.erase(0, section_->open.size());
  return true;
}

void AnswerParser::open_channel(std::string_view header) {
  function_ = function_of(header);
  const bool thinks = header.find("analysis") != std::string_view::npos;
  if (function_.empty()) {
    enter(thinks ? Kind::thinking : Kind::content);
  } else {
    state_ = State::call;
  }
  begun_header_.clear();
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
