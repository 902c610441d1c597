#include "text/chat/answer_marks.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <optional>

#include "text/chat/mark_spans.h"
#include "text/chat/template_probe.h"
#include "text/chat/tool_calls.h"
#include "text/unicode/unicode.h"

namespace pumice {

namespace {

using nlohmann::ordered_json;
using Pair = AnswerMarks::Pair;
using text::common_beginning;
using text::common_end;
using text::marks_in;
using text::MarkSpan;

// The name within a mark: its letters in lower case, with _ between words.
std::string mark_name(std::string_view mark) {
  std::string spelled;
  for (size_t i = 0; i < mark.size(); ++i) {
    const auto c = static_cast<unsigned char>(mark[i]);
    if (std::isalnum(c) || c == '_' || c == ':') spelled += static_cast<char>(std::tolower(c));
    if (c == ' ' || mark.substr(i).starts_with("▁")) spelled += '_';
  }
  return spelled;
}

bool is_end(std::string_view mark) {
  const std::string spelled = mark_name(mark);
  const std::string_view before = mark.substr(0, mark.find('/')); // nothing but brackets: </think>, ◁/think▷
  const bool slash = before.size() < mark.size() && mark_name(before).empty();
  return slash || spelled == "end" || spelled.starts_with("end_") || spelled.ends_with("_end") ||
         spelled.ends_with("_suffix") || spelled.find("_end_") != std::string::npos ||
         (mark.ends_with("|>") && !mark.starts_with("<|"));
}

// The mark that begins what this one ends; empty if its spelling does not say. Of several, one that is in the
// text.
std::string begin_for(std::string_view end, std::string_view text) {
  std::string usual;
  for (const auto& [closing, opening] : {std::pair<std::string_view, std::string_view>{"/", ""},
                                         {"END", "START"},
                                         {"END", "BEGIN"},
                                         {"end", "begin"},
                                         {"end", "start"},
                                         {"suffix", "prefix"}}) {
    const size_t at = end.find(closing);
    if (at == std::string_view::npos) continue;
    std::string begin(end);
    begin.replace(at, closing.size(), opening);
    if (text.find(begin) != std::string_view::npos) return begin;
    if (usual.empty()) usual = std::move(begin);
  }
  return usual;
}

// The reverse, for a mark that begins calls.
std::string end_for(std::string begin) {
  for (const auto& [opening, closing] : {std::pair<std::string_view, std::string_view>{"START", "END"},
                                         {"begin", "end"},
                                         {"start", "end"},
                                         {"prefix", "suffix"}}) {
    const size_t at = begin.find(opening);
    if (at != std::string::npos) return begin.replace(at, opening.size(), closing);
  }
  if (mark_length(begin) != begin.size()) return {};
  const auto name = std::ranges::find_if(begin, [](unsigned char c) { return std::isalnum(c) != 0; });
  const size_t at =
      name == begin.end() ? text::first_code_point(begin).length : static_cast<size_t>(name - begin.begin());
  return begin.insert(at, "/");
}

// Of one kind: no template has as many, and each is searched for.
constexpr size_t most_marks = 32;

void add_mark(std::vector<std::string>& marks, std::string mark) {
  if (!mark.empty() && marks.size() < most_marks && std::ranges::find(marks, mark) == marks.end())
    marks.push_back(std::move(mark));
}

// Whether this ends one of these, or there is no room for it.
bool is_known(const std::vector<Pair>& pairs, std::string_view end) {
  return pairs.size() >= most_marks ||
         std::ranges::any_of(pairs, [&](const Pair& each) { return each.end == end; });
}

class MarkFinder {
public:
  MarkFinder(const ChatTemplate& chat_template, const std::tm& now)
      : text_(chat_template.text()), render_(chat_template, now) {
    renders_ = render_({}).has_value();
    if (renders_) style_ = CallStyle::of(render_); // else it will not render more
  }

  AnswerMarks marks() {
    const auto shows = [&](std::string_view text) { return text_.find(text) != std::string_view::npos; };
    made_.recipients = shows(">>>all");
    made_.channels = shows("<|channel|>") && shows("<|message|>");
    if (!made_.channels) {
      if (renders_) {
        find_thinking();
        find_thinking_member();
        find_head();
        find_content();
        find_calls();
      }
      find_in_text();
    }
    if (made_.call_ends.empty()) {
      for (const std::string& begin : made_.call_begins) add_mark(made_.call_ends, end_for(begin));
    }
    if (!made_.channels && !made_.recipients) find_shown();
    find_ids();
    return std::move(made_);
  }

private:
  ordered_json call(std::string_view content, const std::string& id) const {
    CallStyle style = style_;
    style.id = id;
    return TemplateProbe::with_calls(content, {TemplateProbe::usual_call()}, style);
  }

  void add_thinking(std::string begin, std::string end) {
    if (begin.empty() || end.empty() || is_known(made_.thinking, end)) return;
    made_.thinking.push_back({std::move(begin), std::move(end)});
  }

  void find_thinking() {
    const std::optional<std::string> plain = render_({TemplateProbe::said(probe::answer)});
    for (const std::string_view next : {probe::answer, probe::name}) {
      const ordered_json message = next == probe::name ? call("", style_.id) : TemplateProbe::said(next);
      const std::optional<std::string> text = render_({TemplateProbe::with_thought(message)});
      const size_t at = text ? text->rfind(probe::thought) : std::string::npos;
      if (at == std::string::npos) continue;
      const std::string_view before = std::string_view(*text).substr(0, at);
      std::string_view after = std::string_view(*text).substr(at + probe::thought.size());
      after = after.substr(0, after.find(next));
      const size_t head = plain ? common_beginning(*text, *plain) : at;
      const std::vector<MarkSpan> begins = marks_in(before), ends = marks_in(after);
      if (ends.empty() && next == probe::answer && head < at && marks_in(before.substr(head)).empty()) {
        add_words_of_thinking(before.substr(head), after);
        continue;
      }
      if (begins.empty() || ends.empty()) continue;
      std::string begin(text::trimmed(before.substr(begins.back().begin)));
      const std::string end(text::trimmed(after.substr(0, ends[0].end)));
      // What begins a thought begins no answer. The head of the message may be all that comes before it.
      const auto begins_answer = [&](std::string_view mark) {
        return plain && plain->find(mark) != std::string::npos;
      };
      if (begins_answer(begin)) {
        const auto longer = std::find_if(begins.rbegin(), begins.rend(), [&](const MarkSpan& mark) {
          return !begins_answer(text::trimmed(before.substr(mark.begin)));
        });
        const std::string spelled = begin_for(end, text_);
        if (longer != begins.rend()) {
          begin = text::trimmed(before.substr(longer->begin));
        } else if (!spelled.empty()) {
          begin = spelled;
        }
      }
      const size_t known = made_.thinking.size();
      add_thinking(begin, end);
      made_.shows_thinking = made_.shows_thinking || made_.thinking.size() > known;
    }
  }

  void find_thinking_member() {
    for (const char* member : probe::thinking_members) {
      for (ordered_json message : {TemplateProbe::said(probe::answer), call("", style_.id)}) {
        for (const char* other : probe::thinking_members) message.erase(other); // of calls that need one
        message[member] = probe::thought;
        const std::optional<std::string> text = render_({message});
        if (text && text->find(probe::thought) != std::string::npos) made_.thinking_member = member;
        if (made_.thinking_member) return;
      }
    }
  }

  // "Here is my thought process:", as Granite 3.2 has it. It may only begin an answer.
  void add_words_of_thinking(std::string_view begin, std::string_view end) {
    constexpr size_t least = 4; // bytes of words that are no accident
    begin = text::trimmed(begin);
    end = text::trimmed(end);
    if (begin.size() < least || end.size() < least) return;
    add_thinking(std::string(begin), std::string(end));
    made_.thinking_first = true;
  }

  // What a prompt ends with, up to a thought that it begins.
  void find_head() {
    const std::optional<std::string> asked = render_({}, true), question = render_({});
    if (!asked || !question) return;
    std::string_view head = std::string_view(*asked).substr(common_beginning(*asked, *question));
    for (const Pair& each : made_.thinking) head = head.substr(0, head.find(each.begin));
    if (!marks_in(head).empty()) made_.head = text::trimmed(head);
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
    const std::string_view before = text::trimmed(std::string_view(*plain).substr(head, at - head)),
                           after = std::string_view(*plain).substr(at + probe::answer.size());
    const std::vector<MarkSpan> begins = marks_in(before), ends = marks_in(after);
    const auto spelled = [&](const MarkSpan& mark) {
      return std::string(before.substr(mark.begin, mark.end - mark.begin));
    };
    if (begins.empty() || begins.back().end != before.size() || is_end(spelled(begins.back()))) return;
    // All marks behind a thought, with words between them, as in <|part|>reply<|body|>.
    size_t first = begins.size() - 1;
    while (first > 0 && !is_end(spelled(begins[first - 1]))) --first;
    std::string begin(before.substr(begins[first].begin));
    // The prompt may have begun them: <|to|>, and then all<|body|>.
    const bool begun = first == 0 && begins[0].begin > 0;
    if (begun && made_.head.empty()) return;
    if (begun) begin = made_.head + std::string(before);
    const bool ends_thoughts =
        std::ranges::any_of(made_.thinking, [&](const Pair& each) { return each.end == begin; });
    if (is_thinking(begin) && !ends_thoughts) return;
    std::string end(ends.empty() ? "" : text::trimmed(after.substr(0, ends[0].end)));
    if (!is_end(end)) end.clear(); // it ends with the answer
    if (!ends_thoughts || !end.empty()) made_.content.push_back({std::move(begin), std::move(end)});
  }

  void find_calls() {
    for (const std::string_view content : {std::string_view(), probe::answer}) {
      const std::optional<std::string> plain = render_({TemplateProbe::said(content)});
      const std::string called = style_.id.empty() ? "" : render_({call(content, style_.id)}).value_or("");
      if (!plain) continue;
      const size_t begin = common_beginning(called, *plain), at = called.find(probe::name, begin);
      if (at == std::string::npos) continue;
      add_begins(std::string_view(called).substr(begin), at - begin);
      find_middle(std::string_view(called).substr(at + probe::name.size()));
      const size_t argument = called.find(probe::value, at), end = common_end(called, *plain);
      made_.tight_values = argument != std::string::npos && called[argument - 1] == '>';
      const std::string_view rest =
          std::string_view(called).substr(argument == std::string::npos ? at : argument);
      for (const MarkSpan& mark : marks_in(rest)) {
        const std::string_view spelled = rest.substr(mark.begin, mark.end - mark.begin);
        const bool named =
            spelled.find(probe::name) != spelled.npos || spelled.find(probe::argument) != spelled.npos;
        if (mark.end + end <= rest.size() && !named) add_mark(made_.call_ends, std::string(spelled));
      }
      return;
    }
  }

  // `text` begins where a call does, at or before its name, which stands at `at`.
  void add_begins(std::string_view text, size_t at) {
    std::string_view bare = text.substr(0, at);
    size_t opening = 0;
    for (const MarkSpan& mark : marks_in(text)) {
      if (mark.begin >= at) break;
      const std::string spelled(text.substr(mark.begin, std::min(mark.end, at) - mark.begin));
      if (is_thinking(spelled)) continue;
      bare = {};
      opening = std::min(mark.end, at);
      if (mark.end <= at && is_end(spelled)) continue;
      add_mark(made_.call_begins, spelled);
    }
    made_.call_opening = text::trimmed(text.substr(opening, at - opening));
    constexpr std::string_view room = "functions."; // of an id, which then has the name
    if (style_.id == probe::named && bare.ends_with(room)) bare.remove_suffix(room.size());
    bare = text::trimmed(bare);
    made_.bare_names = bare.empty() && opening == 0;
    const size_t bracket = bare.find_first_of("{[");
    made_.bare_calls = bracket == 0 && bare.find('{') != std::string_view::npos;
    // Words begin a call: functools[{"name": "f"..., or Action: f
    if (bare.empty() || bracket == 0) return;
    const bool list = bracket < bare.size() && bare[bracket] == '[';
    add_mark(made_.call_begins,
             std::string(list ? bare.substr(0, bracket + 1) : text::trimmed(bare.substr(0, bracket))));
  }

  // A way to write calls that is none of those that are known.
  void find_shown() {
    if (style_.id.empty()) return;
    const ordered_json texts = {{probe::argument, probe::value}, {probe::other_argument, probe::other_value}};
    for (const std::string_view content : {std::string_view(), probe::answer}) {
      const std::optional<std::string> text =
          ShownCall::written(render_, style_, made_.call_begins, content, {{probe::name, texts}});
      if (!text) continue;
      if (reads(*text, texts, {})) return;
      made_.shown = ShownCall::of(render_, style_, made_.call_begins);
      const ordered_json offered = ordered_json::array({{{"name", probe::name}}});
      const ordered_json number = {{probe::argument, 7}};
      const std::optional<std::string> other =
          ShownCall::written(render_, style_, made_.call_begins, content, {{probe::name, number}});
      if (made_.shown && !(reads(*text, texts, offered) && other && reads(*other, number, offered)))
        made_.shown.reset();
      return;
    }
  }

  // Whether a call that the template wrote is read, to its end.
  bool reads(std::string_view text, const ordered_json& arguments, const ordered_json& tools) const {
    const ReadCalls read = read_calls(text, made_, tools, true);
    if (read.state != ReadCalls::State::whole || read.calls.size() != 1 ||
        read.calls[0].name != probe::name || read.calls[0].arguments != arguments)
      return false;
    text = text::trimmed(text.substr(read.length));
    for (bool more = true; more;) {
      more = false;
      for (const std::string& end : made_.call_ends) {
        if (!text.starts_with(end)) continue;
        text = text::trimmed(text.substr(end.size()));
        more = true;
      }
    }
    return text.empty();
  }

  // Between a name and an object of arguments, which `rest` begins with.
  void find_middle(std::string_view rest) {
    const size_t object = rest.find('{');
    if (object == std::string_view::npos) return;
    const std::string_view middle = text::trimmed(rest.substr(0, object));
    if (middle.find_first_of("\"'()[]<>=,") == std::string_view::npos && marks_in(middle).empty())
      made_.call_middle = middle;
  }

  // What the template's own text mentions, where it renders nothing of the kind: in what it tells the model,
  // or what it removes from older answers.
  void find_in_text() {
    const bool no_calls = made_.call_begins.empty() && !made_.bare_calls && !made_.bare_names;
    const bool no_thinking = made_.thinking.empty(), no_content = made_.content.empty();
    for (const MarkSpan& span : marks_in(text_)) {
      const std::string mark(text_.substr(span.begin, span.end - span.begin));
      const std::string spelled = mark_name(mark);
      const auto has = [&](const char* word) { return spelled.find(word) != std::string::npos; };
      const bool thinks = has("think") || has("thought") || has("reason");
      if (no_thinking && thinks && is_end(mark) && !is_known(made_.thinking, mark))
        add_thinking(begin_for(mark, text_), mark);
      if (no_content && mark.starts_with("</") && (spelled == "response" || spelled == "answer") &&
          !is_known(made_.content, mark))
        made_.content.push_back({begin_for(mark, text_), mark});
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
    if (!renders_) return;
    const auto shown = [&](const std::string& id) {
      ordered_json result = {{"role", "tool"}, {"name", probe::name}, {"content", probe::result}};
      if (!id.empty()) result["tool_call_id"] = id;
      return render_({style_.id.empty() ? TemplateProbe::said(probe::answer) : call("", id), result});
    };
    const std::optional<std::string> given = shown(style_.id);
    made_.no_calls_shown = style_.id.empty() && text_.find("tool_calls") == std::string_view::npos;
    made_.no_results_shown = !given || given->find(probe::result) == std::string::npos;
    if (!given || style_.id.empty()) return;
    if (!shown({}) || given->find(style_.id) != std::string::npos) made_.id = style_.id;
  }

  std::string_view text_;
  TemplateProbe render_;
  bool renders_ = false;
  CallStyle style_;
  AnswerMarks made_;
};

} // namespace

AnswerMarks AnswerMarks::of(const ChatTemplate& chat_template, const std::tm& now) {
  return MarkFinder(chat_template, now).marks();
}

} // namespace pumice
