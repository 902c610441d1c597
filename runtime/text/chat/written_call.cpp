#include "text/chat/written_call.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "text/chat/loose_values.h"
#include "text/chat/mark_spans.h"
#include "text/chat/template_probe.h"
#include "text/unicode/unicode.h"

namespace pumice {

namespace {

using nlohmann::ordered_json;
using Arguments = WrittenCall::Arguments;

Error not_known(const char* what) {
  return Error{Code::unsupported, what};
}

bool is_space(char c) {
  return text::ascii_white_space.find(c) != std::string_view::npos;
}

// Takes characters from the beginning, white space before each of them.
bool take(std::string_view& text, std::string_view characters) {
  std::string_view rest = text;
  for (const char c : characters) {
    while (!rest.empty() && is_space(rest[0])) rest.remove_prefix(1);
    if (!rest.starts_with(c)) return false;
    rest.remove_prefix(1);
  }
  text = rest;
  return true;
}

// What stands around two arguments that are texts.
struct Around {
  std::string_view before, between_key_and_value, between_arguments, after;
};

std::string_view from_to(std::string_view text, size_t begin, size_t end) {
  return text.substr(begin, end - begin);
}

class WrittenCallFinder {
public:
  WrittenCallFinder(const ChatTemplate& chat_template, const AnswerMarks& marks, const std::tm& now)
      : marks_(marks), render_(chat_template, now), style_(CallStyle::of(render_)) {}

  Result<WrittenCall> find() {
    if (style_.id.empty()) return not_known("the model's chat template does not write calls of tools");
    for (const std::string_view content : {std::string_view(), probe::answer}) {
      const std::optional<std::string> plain = render_({TemplateProbe::said(content)});
      const auto two = calls(
          content,
          {{probe::name, {{probe::argument, probe::value}, {probe::other_argument, probe::other_value}}}});
      if (plain && two) return find_in(content, *two, *plain);
    }
    return not_known("the model's chat template does not write calls of two arguments");
  }

private:
  std::optional<std::string> calls(std::string_view content,
                                   const std::vector<TemplateProbe::Call>& all) const {
    std::optional<std::string> text = render_({TemplateProbe::with_calls(content, all, style_)});
    if (text && text->find(probe::name, text->find("question")) == std::string::npos) text.reset();
    return text;
  }

  Result<WrittenCall> find_in(std::string_view content, std::string_view text, std::string_view plain) {
    const size_t name = text.rfind(probe::name), name_end = name + probe::name.size();
    const size_t key = text.find(probe::argument, name_end), value = text.find(probe::value, key);
    const size_t other_key = text.find(probe::other_argument, value),
                 other_value = text.find(probe::other_value, other_key);
    if (other_value == std::string_view::npos)
      return not_known("the model's chat template does not write arguments behind the name of their tool");
    const size_t key_end = key + std::string_view(probe::argument).size(),
                 value_end = value + probe::value.size();
    const size_t other_end = other_key + std::string_view(probe::other_argument).size(),
                 last = other_value + probe::other_value.size();
    PUMICE_CHECK(find_begin(text, text::common_beginning(text, plain), name));
    const size_t end = text.size() - text::common_end(text, plain);
    const Around around{from_to(text, name_end, key), from_to(text, key_end, value),
                        from_to(text, value_end, other_key), end > last ? from_to(text, last, end) : ""};
    if (from_to(text, other_end, other_value) != around.between_key_and_value)
      return not_known("the model's chat template writes two texts in two ways");
    if (!is_json(around) && !is_python(around) && !is_tags(around, content))
      return not_known("the model's chat template writes calls in a way that is not known");
    cut_end();
    find_between(content);
    return std::move(made_);
  }

  Status find_begin(std::string_view text, size_t from, size_t name) {
    size_t begin = std::string_view::npos;
    for (const std::string& mark : marks_.call_begins) begin = std::min(begin, text.find(mark, from));
    made_.bare = begin >= name;
    if (made_.bare) {
      begin = text.find('{', from);
      if (!marks_.bare_calls || begin >= name)
        return not_known("the model's chat template writes nothing that begins a call");
    }
    made_.begin = from_to(text, begin, name);
    return {};
  }

  bool is_json(const Around& around) {
    const size_t open = around.before.rfind('{');
    if (open == std::string_view::npos) return false;
    std::string_view before = around.before.substr(open), key_value = around.between_key_and_value,
                     arguments = around.between_arguments, after = around.after;
    if (!take(before, "{\"") || !before.empty() || !take(key_value, "\":\"") || !key_value.empty() ||
        !take(arguments, "\",\"") || !arguments.empty() || !take(after, "\"}"))
      return false;
    made_.arguments = Arguments::json;
    made_.middle = around.before.substr(0, open);
    made_.end = after;
    return true;
  }

  bool is_python(const Around& around) {
    for (const char* quote : {"\"", "'"}) {
      std::string_view arguments = around.between_arguments, after = around.after;
      if (around.before != "(" || around.between_key_and_value != std::string("=") + quote ||
          !take(arguments, quote + std::string(",")) || !text::trimmed(arguments).empty() ||
          !take(after, quote + std::string(")")))
        continue;
      made_.arguments = Arguments::python;
      made_.end = after;
      return true;
    }
    return false;
  }

  // What comes before each name is what the text before the first one and that before the second one end
  // with, from a mark on.
  bool is_tags(const Around& around, std::string_view content) {
    const auto [a, b] = std::mismatch(around.before.rbegin(), around.before.rend(),
                                      around.between_arguments.rbegin(), around.between_arguments.rend());
    std::string_view common =
        around.before.substr(around.before.size() - static_cast<size_t>(a - around.before.rbegin()));
    while (!common.empty() && common[0] != '<' && common[0] != '[' && !is_space(common[0]))
      common.remove_prefix(1);
    const std::string_view after =
        around.between_arguments.substr(0, around.between_arguments.size() - common.size());
    if (common.find_first_of("<[") == std::string_view::npos || text::trimmed(after).empty() ||
        !around.after.starts_with(after))
      return false;
    made_.arguments = Arguments::tags;
    made_.before_name = common;
    made_.middle = around.before.substr(0, around.before.size() - common.size());
    made_.before_text = made_.before_other = around.between_key_and_value;
    made_.after_value = after;
    made_.end = around.after.substr(after.size());
    const auto number = calls(content, {{probe::name, {{probe::argument, 7}}}});
    if (!number) return true;
    const size_t key = number->find(probe::argument, number->rfind(probe::name));
    if (key == std::string::npos) return true;
    const size_t begin = key + std::string_view(probe::argument).size(), value = number->find('7', begin);
    if (value != std::string::npos) made_.before_other = number->substr(begin, value - begin);
    return true;
  }

  // What follows the marks that end a call is no part of it.
  void cut_end() {
    size_t last = 0;
    for (const text::MarkSpan& mark : text::marks_in(made_.end)) {
      const std::string spelled = made_.end.substr(mark.begin, mark.end - mark.begin);
      if (std::ranges::find(marks_.call_ends, spelled) != marks_.call_ends.end()) last = mark.end;
    }
    if (last > 0) made_.end.resize(last);
    while (!made_.end.empty() && is_space(made_.end.back())) made_.end.pop_back();
  }

  void find_between(std::string_view content) {
    const auto both = calls(
        content, {TemplateProbe::usual_call(), {probe::other_name, {{probe::argument, probe::other_value}}}});
    if (!both) return;
    const size_t value = both->find(probe::value, both->rfind(probe::name));
    const size_t name = value == std::string::npos ? value : both->find(probe::other_name, value);
    if (name == std::string::npos) return;
    const size_t begin = value + probe::value.size();
    std::string_view between = std::string_view(*both).substr(begin, name - begin);
    if (made_.arguments == Arguments::tags) {
      if (!between.starts_with(made_.after_value)) return;
      between.remove_prefix(made_.after_value.size());
    } else if (made_.arguments == Arguments::json ? !take(between, "\"}")
                                                  : !take(between, "\")") && !take(between, "')")) {
      return;
    }
    // Calls that each have all their marks are calls of their own.
    if (made_.end.empty() || !between.starts_with(made_.end)) made_.between = between;
  }

  const AnswerMarks& marks_;
  const TemplateProbe render_;
  const CallStyle style_;
  WrittenCall made_;
};

} // namespace

Result<WrittenCall> WrittenCall::of(const ChatTemplate& chat_template, const AnswerMarks& marks,
                                    const std::tm& now) {
  Result<WrittenCall> found = WrittenCallFinder(chat_template, marks, now).find();
  if (found.ok()) return found;
  // Families whose templates do not show it.
  const WrittenCall known[] = {
      {.arguments = Arguments::python, .begin = "<|tool_call_start|>[", .end = "]<|tool_call_end|>"}, // LFM2
      {.arguments = Arguments::python, .begin = "```tool_code\n", .end = "\n```"}, // Gemma 3
      {.begin = "<|tool_call|>[{\"name\": \"",                                     // Phi-4-mini
       .middle = "\", \"arguments\": ",
       .end = "}]<|/tool_call|>",
       .between = "}, {\"name\": \""}};
  for (const WrittenCall& each : known) {
    const auto begins = [&](const std::string& mark) { return each.begin.starts_with(mark); };
    const auto ends = [&](const std::string& mark) { return each.end.ends_with(mark); };
    if (std::ranges::any_of(marks.call_begins, begins) && std::ranges::any_of(marks.call_ends, ends))
      return each;
  }
  return found;
}

std::optional<std::string> WrittenCall::text(const std::string& name, const ordered_json& values) const {
  const auto spelled = [](const ordered_json& value) {
    return value.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
  };
  if (arguments == Arguments::json) return begin + name + middle + spelled(values) + end;
  if (arguments == Arguments::tags) return std::nullopt;
  std::string all;
  for (const auto& [key, value] : values.items())
    all += (all.empty() ? "" : ", ") + key + "=" + spelled(value);
  return begin + name + "(" + all + ")" + end;
}

WrittenId find_id(std::string_view text) {
  WrittenId found;
  const auto ends_word = [](char c) { return !text::is_name_character(c); };
  // "id": "0", with a comma before it or behind it
  for (size_t key = text.find("id\""); key != std::string_view::npos; key = text.find("id\"", key + 1)) {
    const size_t open = text.rfind('"', key);
    std::string_view rest = text.substr(key + 2);
    if (open == std::string_view::npos || !take(rest, "\":\"")) continue;
    found.value = text.size() - rest.size();
    found.value_end = text.find('"', found.value);
    if (found.value_end == std::string_view::npos) continue;
    found.begin = open;
    found.end = found.value_end + 1;
    const std::string_view before = text.substr(0, open), trimmed = text::trimmed(before);
    std::string_view after = text.substr(found.end);
    if (trimmed.ends_with(',')) {
      found.begin = static_cast<size_t>(trimmed.data() - text.data()) + trimmed.size() - 1;
    } else if (take(after, ",")) {
      while (!after.empty() && is_space(after[0])) after.remove_prefix(1);
      found.end = text.size() - after.size();
    }
    return found;
  }
  const std::string_view known = std::string_view(probe::letters).substr(0, 8); // the last one counts calls
  const size_t at = text.find(known);
  if (at == std::string_view::npos) return {};
  found.value = at;
  while (found.value > 0 && !ends_word(text[found.value - 1])) --found.value; // call_
  found.begin = found.value;
  found.value_end = static_cast<size_t>(
      std::find_if(text.begin() + static_cast<ptrdiff_t>(at), text.end(), ends_word) - text.begin());
  found.end = found.value_end;
  for (const text::MarkSpan& mark : text::marks_in(text))
    if (mark.end == found.value) found.begin = mark.begin;
  return found;
}

} // namespace pumice
