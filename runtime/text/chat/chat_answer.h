#pragma once

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

// Divides an answer into its parts, while it arrives. The text has the special tokens spelled out. Whatever
// the pieces, the texts of each kind, joined, and the calls are the same. Nothing is lost: what looks like a
// call and is none is content, as it is. White space beside a mark belongs to the mark.
class AnswerParser {
public:
  // `prompt` is the text of the prompt, which may have begun the answer, as with <think>. `tools` is the
  // list that the template was given, or null. `may_think`: the model was not asked to answer without.
  AnswerParser(AnswerMarks marks, std::string_view prompt, nlohmann::ordered_json tools = {},
               bool may_think = true);

  std::vector<AnswerPart> push(std::string_view piece);
  // The rest, at the end of the answer.
  std::vector<AnswerPart> finish();

private:
  // In content or thinking; in a call; behind one; in the header of a channel.
  enum class State { text, call, called, header };
  enum class Meaning {
    begin,   // of a text that `end` ends
    end,     // of the text
    thought, // end of a thought whose beginning is missing
    call,
    header,
    nothing
  };
  enum class Where {
    anywhere,
    first, // where the text has not begun
    line   // at the beginning of a line
  };
  struct Sought {
    std::string_view mark;
    Meaning meaning;
    Where where = Where::anywhere;
    AnswerPart::Kind kind = AnswerPart::Kind::content; // of what begins
    std::string_view end = {};                         // of what begins
  };
  struct Found {
    size_t at = std::string_view::npos;
    Sought what = {{}, Meaning::nothing};
  };
  enum class Bare { no, cut, yes };

  bool step(bool ended);
  bool step_text(bool ended);
  bool step_call(bool ended);
  bool step_called(bool ended);
  bool step_header(bool ended);
  bool step_recipient(bool ended);
  void find_openings();
  std::vector<Sought> sought() const;
  bool may_stand(const Sought& sought, size_t at) const;
  Found find(const std::vector<Sought>& sought) const;
  bool may_be_longer(const Found& found, const std::vector<Sought>& sought) const;
  size_t begun(const std::vector<Sought>& sought) const;
  void forget_begun();
  void take(const Sought& what);
  Bare begins_bare_call() const;
  void begin_call(std::string_view mark, bool weak);
  bool refuse_call(bool ended);
  bool may_be_offered(std::string_view object) const;
  bool are_offered(const std::vector<ToolCall>& calls) const;
  bool is_fresh() const;
  void enter(AnswerPart::Kind kind, std::string_view end);
  void leave();
  void say(AnswerPart::Kind kind, std::string_view text);
  void append(AnswerPart::Kind kind, std::string_view text);

  AnswerMarks marks_;
  nlohmann::ordered_json tools_;
  std::vector<std::string> openings_; // of calls whose first mark is missing
  State state_ = State::text;
  AnswerPart::Kind kind_ = AnswerPart::Kind::content; // of the text
  bool inside_ = false;                               // the text stands between marks
  std::string end_;                                   // the mark that ends it, if it is one
  std::string held_;         // what has arrived and is not decided; of a call, from its mark on
  size_t mark_ = 0;          // length of that mark, or of a channel's header; 0: there is none
  size_t begun_ = 0;         // of held_: the prompt wrote it, and it may begin a mark
  size_t tried_ = 0;         // of held_: no call ends there
  bool weak_ = false;        // what looks like a call is one only if its tool was offered
  bool needs_end_ = false;   // and only if a mark that ends calls follows it
  std::string begun_header_; // of a channel that the prompt has begun
  std::string function_;     // that a channel's call is for
  std::string spaces_;       // white space that belongs to a mark if one follows
  bool at_mark_ = false;     // nothing but white space since the last mark
  bool may_be_thought_;      // all that is held, if the mark that ends thoughts follows
  bool thought_ = false;     // a thought has begun, here or in the prompt
  bool has_content_ = false;
  bool refused_bare_ = false;
  bool unclosed_ = false; // no mark that ends calls has followed the last one
  std::vector<AnswerPart> parts_;
};

} // namespace pumice
