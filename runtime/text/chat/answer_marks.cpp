#include "text/chat/answer_marks.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <optional>

#include "text/chat/chat_prompt.h"
#include "text/chat/loose_values.h"
#include "text/unicode/unicode.h"

namespace pumice {

namespace {

using nlohmann::ordered_json;
using Pair = AnswerMarks::Pair;

// What is looked for in the texts that a template makes.
namespace probe {
constexpr std::string_view answer = "answer-to-be-found", thought = "thought-to-be-found",
                           value = "value-to-be-found", name = "tool_to_be_found";
constexpr const char* argument = "argument_to_be_found";
// An id as Mistral wants it, one as OpenAI's interface has it, and one as Kimi's models write it, whose
// templates write it in place of a name.
constexpr const char *letters = "a1b2c3d4e", *called = "call_a1b2c3d4e5f6a7b8c9d0e1f2",
                     *named = "functions.tool_to_be_found:0";
} // namespace probe

struct MarkSpan {
  size_t begin = 0, end = 0;
};

std::vector<MarkSpan> marks_in(std::string_view text) {
  std::vector<MarkSpan> marks;
  for (size_t at = 0; at < text.size();) {
    const size_t length = mark_length(text.substr(at));
    if (length > 0) marks.push_back({at, at + length});
    at += std::max<size_t>(1, length);
  }
  return marks;
}

// The length of what two texts begin with alike, without parts of marks.
size_t common_beginning(std::string_view a, std::string_view b) {
  const auto [end, other] = std::ranges::mismatch(a, b);
  size_t length = static_cast<size_t>(end - a.begin());
  for (const std::string_view text : {a, b}) {
    for (const MarkSpan& mark : marks_in(text)) {
      if (mark.begin < length && length < mark.end) length = mark.begin;
    }
  }
  return length;
}

size_t common_end(std::string_view a, std::string_view b) {
  size_t length = 0;
  while (length < std::min(a.size(), b.size()) && a[a.size() - 1 - length] == b[b.size() - 1 - length])
    ++length;
  for (const std::string_view text : {a, b}) {
    for (const MarkSpan& mark : marks_in(text)) {
      const size_t at = text.size() - length;
      if (mark.begin < at && at < mark.end) length = text.size() - mark.end;
    }
  }
  return length;
}

// The name within a mark: its letters in lower case, with _ between words.
std::string mark_name(std::string_view mark) {
  std::string spelled;
  for (size_t i = 0; i < mark.size(); ++i) {
    const auto c = static_cast<unsigned char>(mark[i]);
    if (std::isalnum(c) || c == '_' || c == ':') spelled += static_cast<char>(std::tolower(c));
    if (mark.substr(i).starts_with("▁")) spelled += '_';
  }
  return spelled;
}

bool is_end(std::string_view mark) {
  const std::string spelled = mark_name(mark);
  return mark.substr(1).starts_with('/') || mark.starts_with("<｜/") || mark.starts_with("<|/") ||
         spelled.starts_with("end_") || spelled.ends_with("_end") ||
         spelled.find("_end_") != std::string::npos || (mark.ends_with("|>") && !mark.starts_with("<|"));
}

// The mark that begins what this one ends; empty if its spelling does not say.
std::string begin_for(std::string_view end) {
  std::string begin(end);
  for (const auto& [closing, opening] :
       {std::pair<std::string_view, std::string_view>{"/", ""}, {"END", "START"}, {"end", "begin"}}) {
    const size_t at = begin.find(closing);
    if (at == std::string::npos) continue;
    return begin.replace(at, closing.size(), opening);
  }
  return {};
}

// The reverse, for a mark that begins calls.
std::string end_for(std::string begin) {
  for (const auto& [opening, closing] :
       {std::pair<std::string_view, std::string_view>{"START", "END"}, {"begin", "end"}, {"start", "end"}}) {
    const size_t at = begin.find(opening);
    if (at != std::string::npos) return begin.replace(at, opening.size(), closing);
  }
  return mark_length(begin) == begin.size() ? begin.insert(begin.starts_with("<|") ? 2 : 1, "/") : "";
}

void add_mark(std::vector<std::string>& marks, std::string mark) {
  if (!mark.empty() && std::ranges::find(marks, mark) == marks.end()) marks.push_back(std::move(mark));
}

// Renders small conversations with a template.
class TemplateProbe {
public:
  TemplateProbe(const ChatTemplate& chat_template, const std::tm& now)
      : template_(chat_template), now_(now), parts_(reads_parts_alone(chat_template, now)) {}

  static ordered_json said(std::string_view text) { return {{"role", "assistant"}, {"content", text}}; }

  static ordered_json with_thought(ordered_json message) {
    for (const char* member : {"reasoning_content", "thinking", "reasoning"})
      message[member] = probe::thought;
    return message;
  }

  // `id`: null for none. `as_text`: the arguments as JSON in a string.
  static ordered_json with_call(ordered_json message, const char* id, bool as_text) {
    const ordered_json arguments = {{probe::argument, probe::value}};
    ordered_json call = {{"type", "function"},
                         {"function", {{"name", probe::name}, {"arguments", arguments}}}};
    if (as_text) call["function"]["arguments"] = arguments.dump();
    if (id) call["id"] = id;
    message["tool_calls"] = ordered_json::array({std::move(call)});
    return message;
  }

  // The text with these messages after a question; nothing if the template refuses them.
  std::optional<std::string> operator()(const std::vector<ordered_json>& messages,
                                        bool prompt = false) const {
    ordered_json all = ordered_json::array({{{"role", "user"}, {"content", "question"}}});
    for (const ordered_json& each : messages) all.push_back(each);
    if (parts_) contents_to_parts(all);
    const ordered_json tool = {
        {"name", probe::name},
        {"description", "tool"},
        {"parameters",
         {{"type", "object"},
          {"properties", {{probe::argument, {{"type", "string"}, {"description", "text"}}}}}}}};
    Result<std::string> text =
        template_.render({{"messages", all},
                          {"tools", ordered_json::array({{{"type", "function"}, {"function", tool}}})},
                          {"add_generation_prompt", prompt}},
                         now_);
    if (!text.ok()) return std::nullopt;
    return *std::move(text);
  }

private:
  const ChatTemplate& template_;
  const std::tm& now_;
  bool parts_;
};

class MarkFinder {
public:
  MarkFinder(const ChatTemplate& chat_template, const std::tm& now)
      : text_(chat_template.text()), render_(chat_template, now) {
    renders_ = render_({}).has_value();
    if (!renders_) return; // nor will it render more
    for (const char* id : {probe::letters, probe::called, probe::named}) {
      for (const bool as_text : {false, true}) {
        for (const bool thinks : {false, true}) {
          if (id_) break;
          as_text_ = as_text;
          thinks_ = thinks;
          const std::optional<std::string> text = render_({call("", id)});
          if (text && text->find(probe::name, text->find("question")) != std::string::npos) id_ = id;
        }
      }
    }
  }

  AnswerMarks marks() {
    const auto shows = [&](std::string_view text) { return text_.find(text) != std::string_view::npos; };
    made_.channels = shows("<|channel|>") && shows("<|message|>");
    if (!made_.channels) {
      if (renders_) {
        find_thinking();
        find_content();
        find_calls();
      }
      find_in_text();
    }
    if (made_.call_ends.empty()) {
      for (const std::string& begin : made_.call_begins) add_mark(made_.call_ends, end_for(begin));
    }
    find_ids();
    return std::move(made_);
  }

private:
  ordered_json call(std::string_view content, const char* id) const {
    const ordered_json message = TemplateProbe::with_call(TemplateProbe::said(content), id, as_text_);
    return thinks_ ? TemplateProbe::with_thought(message) : message;
  }

  void add_thinking(std::string begin, std::string end) {
    if (begin.empty() || end.empty()) return;
    const bool known = std::ranges::any_of(made_.thinking, [&](const Pair& each) { return each.end == end; });
    if (!known) made_.thinking.push_back({std::move(begin), std::move(end)});
  }

  void find_thinking() {
    const std::optional<std::string> plain = render_({TemplateProbe::said(probe::answer)});
    for (const std::string_view next : {probe::answer, probe::name}) {
      const ordered_json message = next == probe::name ? call("", id_) : TemplateProbe::said(next);
      const std::optional<std::string> text = render_({TemplateProbe::with_thought(message)});
      const size_t at = text ? text->rfind(probe::thought) : std::string::npos;
      if (at == std::string::npos) continue;
      const std::string_view before = std::string_view(*text).substr(0, at);
      std::string_view after = std::string_view(*text).substr(at + probe::thought.size());
      after = after.substr(0, after.find(next));
      const std::vector<MarkSpan> begins = marks_in(before), ends = marks_in(after);
      if (begins.empty() || ends.empty()) continue;
      std::string begin(text::trimmed(before.substr(begins.back().begin)));
      const std::string end(text::trimmed(after.substr(0, ends[0].end)));
      // The head of the message may be all that comes before a thought.
      const std::string spelled = begin_for(end);
      if (!spelled.empty() && plain && plain->find(begin) != std::string::npos) begin = spelled;
      const size_t known = made_.thinking.size();
      add_thinking(begin, end);
      made_.shows_thinking = made_.shows_thinking || made_.thinking.size() > known;
    }
  }

  bool is_thinking(std::string_view mark) const {
    return std::ranges::any_of(made_.thinking, [&](const Pair& each) {
      return each.begin == mark || each.end == mark || each.begin.starts_with(mark);
    });
  }

  // Between the head of an answer and its content.
  void find_content() {
    const std::optional<std::string> plain = render_({TemplateProbe::said(probe::answer)}),
                                     asked = render_({}, true);
    const size_t at = plain && asked ? plain->rfind(probe::answer) : std::string::npos;
    if (at == std::string::npos) return;
    const size_t head = std::min(at, common_beginning(*plain, *asked));
    const std::string_view before = std::string_view(*plain).substr(head, at - head),
                           after = std::string_view(*plain).substr(at + probe::answer.size());
    const std::vector<MarkSpan> begins = marks_in(before), ends = marks_in(after);
    if (begins.empty() || ends.empty()) return;
    const std::string begin(text::trimmed(before.substr(begins.back().begin)));
    const std::string end(text::trimmed(after.substr(0, ends[0].end)));
    if (begin == before.substr(begins.back().begin, begins.back().end - begins.back().begin) &&
        !is_thinking(begin) && !is_end(begin) && is_end(end))
      made_.content.push_back({begin, end});
  }

  void find_calls() {
    for (const std::string_view content : {std::string_view(), probe::answer}) {
      const std::optional<std::string> plain = render_({TemplateProbe::said(content)});
      const std::string called = id_ ? render_({call(content, id_)}).value_or("") : "";
      const size_t at = called.rfind(probe::name);
      if (!plain || at == std::string::npos) continue;
      const size_t begin = std::min(at, common_beginning(called, *plain));
      add_begins(std::string_view(called).substr(begin), at - begin);
      const size_t argument = called.find(probe::value, at), end = common_end(called, *plain);
      const std::string_view rest =
          std::string_view(called).substr(argument == std::string::npos ? at : argument);
      for (const MarkSpan& mark : marks_in(rest)) {
        if (mark.end + end <= rest.size())
          add_mark(made_.call_ends, std::string(rest.substr(mark.begin, mark.end - mark.begin)));
      }
      return;
    }
  }

  // `text` begins where a call does, at or before its name, which stands at `at`.
  void add_begins(std::string_view text, size_t at) {
    std::string_view bare = text.substr(0, at);
    for (const MarkSpan& mark : marks_in(text)) {
      if (mark.begin >= at) break;
      const std::string spelled(text.substr(mark.begin, std::min(mark.end, at) - mark.begin));
      if (is_thinking(spelled)) continue;
      bare = {};
      if (mark.end <= at && is_end(spelled)) continue;
      add_mark(made_.call_begins, spelled);
    }
    made_.bare_calls = text::trimmed(bare).starts_with('{');
  }

  // What the template's own text mentions, where it renders nothing of the kind: in what it tells the model,
  // or what it removes from older answers.
  void find_in_text() {
    const bool no_calls = made_.call_begins.empty() && !made_.bare_calls;
    const bool no_thinking = made_.thinking.empty(), no_content = made_.content.empty();
    for (const MarkSpan& span : marks_in(text_)) {
      const std::string mark(text_.substr(span.begin, span.end - span.begin));
      const std::string spelled = mark_name(mark);
      const auto has = [&](const char* word) { return spelled.find(word) != std::string::npos; };
      const bool thinks = has("think") || has("thought") || has("reason");
      if (no_thinking && thinks && is_end(mark)) add_thinking(begin_for(mark), mark);
      if (no_content && mark.starts_with("</") && (spelled == "response" || spelled == "answer"))
        made_.content.push_back({begin_for(mark), mark});
      const bool python = has("python_tag") || has("python_start") || has("python_end"); // of Llama's
      const bool calls = has("tool_call") || has("toolcall") || has("function_call");
      if ((python || (no_calls && calls)) && !has("_id") && !has("response") && !has("result"))
        add_mark(is_end(mark) ? made_.call_ends : made_.call_begins, mark);
    }
    if (made_.thinking.empty()) {
      made_.thinking = {{"<think>", "</think>"}};
      made_.thinking_first = true;
    }
    if (no_calls) add_known_calls();
  }

  // Models whose templates say nothing of their calls.
  void add_known_calls() {
    struct Known {
      const char *seen, *begin, *end;
    };
    constexpr Known all[] = {
        {"List of tools: ", "<|tool_call_start|>", "<|tool_call_end|>"},                 // LFM2
        {"<start_of_turn>", "```tool_code", "```"},                                      // Gemma 3
        {"<|/tool|>", "<|tool_call|>", "<|/tool_call|>"},                                // Phi-4-mini
        {"<|im_middle|>", "<|tool_calls_section_begin|>", "<|tool_calls_section_end|>"}, // Kimi K2
        {"<|im_middle|>", "<|tool_call_begin|>", "<|tool_call_end|>"}};
    for (const Known& each : all) {
      if (text_.find(each.seen) == std::string_view::npos) continue;
      add_mark(made_.call_begins, each.begin);
      add_mark(made_.call_ends, each.end);
    }
  }

  // Ids are made where the template writes them, or refuses calls and results without.
  void find_ids() {
    const auto shown = [&](const char* id) {
      ordered_json result = {{"role", "tool"}, {"name", probe::name}, {"content", "result"}};
      if (id) result["tool_call_id"] = id;
      return render_({call("", id), result});
    };
    const std::optional<std::string> given = id_ ? shown(id_) : std::nullopt;
    if (!given || (shown(nullptr) && given->find(id_) == std::string::npos)) return;
    made_.ids = id_ == probe::named    ? AnswerMarks::Ids::name_and_number
                : id_ == probe::called ? AnswerMarks::Ids::call_and_letters
                                       : AnswerMarks::Ids::letters;
  }

  std::string_view text_;
  TemplateProbe render_;
  bool renders_ = false;
  const char* id_ = nullptr; // with which the template takes a call; null: it takes none
  bool as_text_ = false;     // arguments, as it takes them
  bool thinks_ = false;      // it takes calls with a thought alone
  AnswerMarks made_;
};

} // namespace

size_t mark_length(std::string_view text) {
  constexpr size_t longest = 80;
  if (text.starts_with("```")) {
    size_t end = 3;
    while (end < text.size() && (std::isalpha(static_cast<unsigned char>(text[end])) || text[end] == '_'))
      ++end;
    return end;
  }
  if (text.starts_with('[')) {
    const size_t begin = text.substr(1).starts_with('/') ? 2 : 1;
    const size_t end = text.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZ_ ", begin);
    return end != std::string_view::npos && end > begin + 2 && text[end] == ']' ? end + 1 : 0;
  }
  if (text.size() < 3 || text[0] != '<') return 0;
  const auto first = static_cast<unsigned char>(text[1]);
  if (!std::isalpha(first) && first != '/' && first != '|' && first < 0x80) return 0;
  const size_t end = text.substr(0, longest).find_first_of("<>\n'{", 1);
  if (end == std::string_view::npos || text[end] != '>') return 0;
  // White space and quotes are for attributes: <invoke name="f">.
  const std::string_view inner = text.substr(1, end - 1);
  if (inner.find_first_of(" \"") != std::string_view::npos && inner.find("=\"") == std::string_view::npos)
    return 0;
  return end + 1;
}

AnswerMarks AnswerMarks::of(const ChatTemplate& chat_template, const std::tm& now) {
  return MarkFinder(chat_template, now).marks();
}

} // namespace pumice
