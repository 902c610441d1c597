#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "text/chat/tool_calls.h"

namespace pumice {

// A part of what a model answers.
struct AnswerPart {
  enum class Kind { content, thinking, tool_call };
  Kind kind = Kind::content;
  std::string text = {}; // of content and thinking
  ToolCall call = {};    // of a tool call
};

// A whole answer.
struct Answered {
  std::string content;
  std::string thinking;
  std::vector<ToolCall> tool_calls;

  void add(const AnswerPart& part);
  // As a message for the template that goes on with the conversation, which reads the thinking in this
  // member.
  nlohmann::ordered_json message(const char* thinking_member = "reasoning_content") const;
};

struct AnswerSection; // a place between two marks, such as <think> and </think>

// How a model marks the parts of its answers, which its template's text shows. A template without marks has
// content alone.
class AnswerFormat {
public:
  static AnswerFormat of(std::string_view template_text);

  std::span<const AnswerSection* const> sections() const { return sections_; }

private:
  std::vector<const AnswerSection*> sections_;
};

// Divides an answer into its parts, while it arrives. The text has the special tokens spelled out. Whatever
// the pieces, the texts of each kind, joined, and the calls are the same. Nothing is lost: what looks like a
// call and is none is content, as it is. White space beside a mark belongs to the mark.
class AnswerParser {
public:
  // `prompt` is the text of the prompt, which may have begun the answer, as with <think>. `tools` is the
  // list that the template was given, or null.
  AnswerParser(AnswerFormat format, std::string_view prompt, nlohmann::ordered_json tools = {});

  std::vector<AnswerPart> push(std::string_view piece);
  // The rest, at the end of the answer.
  std::vector<AnswerPart> finish();

private:
  // Outside of sections; in one with content or thinking; in a call; before the text of a channel.
  enum class State { outside, inside, call, header };

  bool step(bool ended);
  bool step_outside(bool ended);
  bool step_inside(bool ended);
  bool step_call(bool ended);
  bool step_header(bool ended);
  bool may_open(const AnswerSection& section, size_t at) const;
  void open(const AnswerSection& section);
  void open_channel(std::string_view header);
  void enter(AnswerPart::Kind kind);
  void leave();
  void say(AnswerPart::Kind kind, std::string_view text);
  void append(AnswerPart::Kind kind, std::string_view text);
  bool take_calls(std::string_view body);

  AnswerFormat format_;
  nlohmann::ordered_json tools_;
  State state_ = State::outside;
  const AnswerSection* section_ = nullptr;            // that is open
  AnswerPart::Kind kind_ = AnswerPart::Kind::content; // of the text inside
  std::string held_;         // what has arrived and is not decided; of a call, from its mark on
  size_t body_ = 0;          // in held_: after the mark, or after a channel's header
  size_t searched_ = 0;      // in held_: no mark that ends the call begins before
  std::string begun_header_; // of a channel that the prompt has begun
  std::string function_;     // that a channel's call is for
  std::string spaces_;       // white space that belongs to a mark if one follows
  bool at_mark_ = false;     // nothing but white space since the last mark
  bool has_content_ = false;
  std::vector<AnswerPart> parts_;
};

} // namespace pumice
