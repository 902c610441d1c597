#include "text/chat/shown_call.h"

#include <algorithm>
#include <utility>

#include "text/chat/argument_types.h"
#include "text/chat/loose_values.h"
#include "text/chat/mark_spans.h"
#include "text/chat/tool_calls.h"
#include "text/unicode/unicode.h"

namespace pumice {

namespace {

using nlohmann::ordered_json;
using State = ReadCalls::State;
constexpr size_t not_there = std::string_view::npos;

bool is_white(char c) {
  return text::ascii_white_space.find(c) != std::string_view::npos;
}

std::string with_mark(std::string text, std::string_view what, char by) {
  if (what.empty()) return text;
  for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at))
    text.replace(at, what.size(), 1, by);
  return text;
}

// What a template writes around the parts of calls.
class ShownCallFinder {
public:
  ShownCallFinder(const TemplateProbe& render, const CallStyle& style, const std::vector<std::string>& begins)
      : render_(render), style_(style), begins_(begins) {}

  std::optional<ShownCall> find() {
    for (const std::string_view content : {std::string_view(), probe::answer}) {
      content_ = content;
      if (find_texts() && find_others()) return made_;
      made_ = {};
    }
    return std::nullopt;
  }

private:
  std::optional<std::string> written(const std::vector<TemplateProbe::Call>& all) const {
    return ShownCall::written(render_, style_, begins_, content_, all);
  }

  // A part of a call's text, with marks in the place of its name and of a key.
  static std::string part(std::string_view text, size_t begin, size_t end, std::string_view key = {}) {
    std::string found(text.substr(begin, end - begin));
    return with_mark(with_mark(std::move(found), key, ShownCall::key_mark), probe::name,
                     ShownCall::name_mark);
  }

  bool find_texts() {
    const std::string_view key = probe::argument, other_key = probe::other_argument;
    const auto text = written({{probe::name, {{key, probe::value}, {other_key, probe::other_value}}}});
    if (!text) return false;
    const size_t name = text->find(probe::name), name_end = name + probe::name.size();
    const size_t at = text->find(key, name_end), value = text->find(probe::value, at);
    const size_t other = text->find(other_key, value), other_value = text->find(probe::other_value, other);
    if (other_value == not_there) return false; // in another order, or not all of them
    const size_t end = value + probe::value.size(), other_end = other_value + probe::other_value.size();
    made_.begin = text->substr(0, name);
    made_.first = part(*text, name_end, at);
    made_.text.before = part(*text, at + key.size(), value, key);
    made_.text.next = part(*text, end, other, key);
    made_.text.end = part(*text, other_end, text->size(), other_key);
    if (made_.text.before != part(*text, other + other_key.size(), other_value, other_key)) return false;
    take_object();
    find_between();
    return made_.object || (!made_.text.before.empty() && !made_.text.end.empty());
  }

  // An object of JSON is read as one.
  void take_object() {
    const size_t open = made_.first.find_last_not_of(" \n\t\"");
    const std::string& end = made_.text.end;
    const size_t close = end.find('}');
    const auto is = [](std::string_view text, std::string_view what) { return text::trimmed(text) == what; };
    if (open == not_there || made_.first[open] != '{' || !made_.first.ends_with('"') ||
        !end.starts_with('"') || close == not_there || !is(std::string_view(end).substr(1, close - 1), "") ||
        !made_.text.before.starts_with('"') || !made_.text.before.ends_with('"'))
      return;
    const std::string_view before = made_.text.before;
    if (!is(before.substr(1, before.size() - 2), ":")) return;
    made_.object = true;
    made_.first.resize(open);
    made_.text.end.erase(0, close + 1);
  }

  void find_between() {
    const auto both =
        written({TemplateProbe::usual_call(), {probe::other_name, {{probe::argument, probe::other_value}}}});
    if (!both) return;
    const size_t value = both->find(probe::value), end = value + probe::value.size();
    const size_t name = value == not_there ? value : both->find(probe::other_name, end);
    if (name == not_there) return;
    std::string between = part(*both, end, name, probe::argument);
    if (made_.object) {
      const size_t close = between.find('}');
      if (close == not_there) return;
      between.erase(0, close + 1);
    }
    // Calls that each have all their marks are calls of their own.
    if (!between.starts_with(made_.text.end) || made_.text.end.empty()) made_.text.between = between;
  }

  bool find_others() {
    made_.other = made_.text;
    if (const auto alone = written({{probe::name, ordered_json::object()}})) {
      const size_t name = alone->find(probe::name);
      if (name != not_there) made_.none = part(*alone, name + probe::name.size(), alone->size());
    }
    if (made_.object) return true;
    const std::string_view key = probe::argument, other_key = probe::other_argument;
    const auto two = written({{probe::name, {{key, 7}, {other_key, probe::other_value}}}});
    const auto one = written({{probe::name, {{key, 7}}}});
    if (!two || !one) return false;
    const auto value_of = [&](const std::string& text) {
      const size_t at = text.find(key);
      return at == not_there ? at : text.find('7', at + key.size());
    };
    const size_t value = value_of(*two), other = value == not_there ? value : two->find(other_key, value);
    const size_t last = value_of(*one);
    if (other == not_there || last == not_there) return false;
    made_.other.before = part(*two, two->find(key) + key.size(), value, key);
    made_.other.next = part(*two, value + 1, other, key);
    made_.other.end = part(*one, last + 1, one->size(), key);
    // What ends a text, such as a quote, does not end another value.
    const std::string &end = made_.text.end, &between = made_.text.between;
    if (end.ends_with(made_.other.end)) {
      const size_t quote = end.size() - made_.other.end.size();
      made_.other.between = between.size() > quote ? between.substr(quote) : between;
    }
    return true;
  }

  const TemplateProbe& render_;
  const CallStyle& style_;
  const std::vector<std::string>& begins_;
  std::string_view content_;
  ShownCall made_;
};

enum class Fit { yes, cut, no };

class ShownCallReader {
public:
  ShownCallReader(const ShownCall& shown, std::string_view text, const ordered_json& tools, bool ended)
      : shown_(shown), text_(text), tools_(tools), ended_(ended) {}

  ReadCalls read() {
    const size_t given = text_.size();
    Fit fit = take(text_, shown_.begin, {});
    while (fit == Fit::yes) {
      more_ = false;
      const size_t count = calls_.size();
      const std::string_view call = text_;
      fit = read_one();
      if (fit == Fit::no || (fit == Fit::cut && ended_)) {
        calls_.erase(calls_.begin() + static_cast<ptrdiff_t>(count), calls_.end());
        text_ = call;
        fit = skip_one();
      }
      if (fit != Fit::yes || more_) continue;
      if (calls_.empty()) return {};
      return {State::whole, std::move(calls_), given - text_.size(), std::move(left_)};
    }
    return {fit == Fit::cut && !ended_ ? State::cut : State::none};
  }

private:
  // Takes a text of the template. White space may differ from the template's, but where it begins or ends a
  // text, a value begins or ends.
  Fit take(std::string_view& text, std::string_view wanted, std::string_view key) const {
    std::string_view rest = text;
    const bool blank = text::trimmed(wanted).empty();
    const size_t inner = blank ? wanted.size() : wanted.find_first_not_of(text::ascii_white_space);
    const size_t last = blank ? 0 : wanted.find_last_not_of(text::ascii_white_space);
    for (size_t at = 0; at < wanted.size(); ++at) {
      const char c = wanted[at];
      if (is_white(c) && !blank && at > inner && at < last) {
        while (!rest.empty() && is_white(rest[0])) rest.remove_prefix(1);
        continue;
      }
      std::string_view expected = wanted.substr(at, 1);
      if (c == ShownCall::key_mark) expected = key;
      if (c == ShownCall::name_mark) expected = name_;
      if (at > inner && at <= last && std::string_view("<{}[],:\"'").find(c) != std::string_view::npos)
        while (!rest.empty() && is_white(rest[0])) rest.remove_prefix(1);
      if (rest.size() < expected.size() && expected.starts_with(rest)) return Fit::cut;
      if (rest.starts_with(expected)) {
        rest.remove_prefix(expected.size());
      } else if (blank || !is_white(c)) {
        return Fit::no;
      }
    }
    text = rest;
    return Fit::yes;
  }

  Fit take_word(std::string_view& text, std::string& word) const {
    size_t length = 0;
    while (length < text.size() && text::is_name_character(text[length])) ++length;
    if (length == text.size()) return Fit::cut;
    word = text.substr(0, length);
    text.remove_prefix(length);
    return length > 0 ? Fit::yes : Fit::no;
  }

  // Whether this begins a name of a tool that was offered, as far as it goes.
  Fit take_name() {
    const std::string_view before = text_;
    const Fit fit = take_word(text_, name_);
    const std::vector<std::string> offered = text::names_of_tools(tools_);
    if (fit == Fit::no) return fit;
    if (offered.empty()) return text::marks_in(shown_.begin).empty() ? Fit::no : fit;
    const bool is = std::ranges::any_of(offered, [&](const std::string& each) {
      return fit == Fit::yes ? each == name_ : each.starts_with(before);
    });
    return is ? fit : Fit::no;
  }

  Fit read_one() {
    if (const Fit fit = take_name(); fit != Fit::yes) return fit;
    calls_.push_back({name_});
    std::string_view rest = text_;
    Fit fit = take(rest, shown_.first, {});
    std::string_view without = text_;
    if (shown_.object && fit == Fit::yes) {
      text_ = rest;
      return read_object();
    }
    std::string key;
    if (fit == Fit::yes) fit = take_word(rest, key);
    std::string_view value = rest;
    if (fit == Fit::yes) fit = before_value(value, key);
    if (fit == Fit::yes) {
      text_ = rest;
      return read_values(std::move(key));
    }
    if (fit == Fit::cut && !ended_) return fit;
    if (shown_.none.empty()) return Fit::no;
    fit = take(without, shown_.none, {});
    if (fit == Fit::yes) text_ = without;
    return fit;
  }

  // What comes before a value of either kind.
  Fit before_value(std::string_view& text, std::string_view key) {
    const ShownCall::Around *longer = &shown_.text, *other = &shown_.other;
    if (other->before.size() > longer->before.size()) std::swap(longer, other);
    for (const ShownCall::Around* each : {longer, other}) {
      const Fit fit = take(text, each->before, key);
      around_ = each;
      if (fit != Fit::no && !(fit == Fit::cut && ended_)) return fit;
    }
    return Fit::no;
  }

  // What of a text of the template stands behind the last key in it.
  static std::string_view behind_key(std::string_view text) {
    const size_t key = text.rfind(ShownCall::key_mark);
    if (key == not_there) return text;
    for (const text::MarkSpan& mark : text::marks_in(text)) {
      if (mark.begin <= key && key < mark.end) return text.substr(mark.end);
    }
    return text.substr(key + 1);
  }

  // Leaves out a call that cannot be read, among others in one frame, where marks tell how far it goes.
  Fit skip_one() {
    const std::string_view between = behind_key(shown_.text.between), end = behind_key(shown_.text.end);
    if (between.empty() || end.empty() || between.find(ShownCall::name_mark) != not_there ||
        end.find(ShownCall::name_mark) != not_there)
      return Fit::no;
    if (!shown_.object && text::marks_in(between).empty()) return Fit::no;
    for (size_t at = 0; at < text_.size(); ++at) {
      for (const bool next : {true, false}) {
        std::string_view rest = text_.substr(at);
        const Fit fit = take(rest, next ? between : end, {});
        if (fit == Fit::cut && !ended_) return fit;
        if (fit != Fit::yes) continue;
        more_ = next;
        leave(text_.substr(0, at), between, end);
        text_ = rest;
        return fit;
      }
    }
    if (!ended_) return Fit::cut;
    leave(text_, between, {});
    return take_rest();
  }

  // Keeps a call's whole text: with what begins each call, and with what ends each where it has ended. The
  // frame, and what separates calls, are left out.
  void leave(std::string_view text, std::string_view between, std::string_view end) {
    const std::string_view begin = shown_.begin;
    size_t from = begin.size() - text::common_end(begin, between), to = text::common_beginning(between, end);
    for (const text::MarkSpan& mark : text::marks_in(begin)) {
      if (mark.begin < from && from < mark.end) from = mark.end;
    }
    for (const text::MarkSpan& mark : text::marks_in(between)) {
      if (mark.begin < to && to < mark.end) to = mark.begin;
    }
    std::string whole(begin.substr(from));
    whole.append(text).append(between.substr(0, to));
    left_ += (left_.empty() ? "" : ", ") + std::string(text::trimmed(whole));
  }

  Fit read_object() {
    const std::string_view given = text_;
    ReadCalls read = read_arguments(text_, name_, ended_);
    if (read.state != State::whole) return read.state == State::cut ? Fit::cut : Fit::no;
    calls_.back().arguments = std::move(read.calls[0].arguments);
    text_ = given.substr(read.length);
    text_.remove_prefix(std::min(text_.find_first_not_of(text::ascii_white_space), text_.size()));
    around_ = &shown_.text;
    std::string next;
    const Fit fit = follower(text_, {}, next);
    return fit == Fit::cut && ended_ ? take_rest() : fit;
  }

  // The answer ends within what ends a call.
  Fit take_rest() {
    text_ = text_.substr(text_.size());
    more_ = false;
    return Fit::yes;
  }

  // What may follow a value: the next key, the name of the next call, or the end of this one.
  Fit follower(std::string_view& text, std::string_view key, std::string& next) {
    if (!shown_.object) {
      std::string_view rest = text;
      Fit fit = take(rest, around_->next, key);
      if (fit == Fit::yes) fit = take_word(rest, next);
      std::string_view value = rest;
      const ShownCall::Around* around = around_;
      if (fit == Fit::yes) fit = before_value(value, next);
      around_ = around;
      if (fit == Fit::yes) text = rest;
      if (fit == Fit::yes || (fit == Fit::cut && !ended_)) return fit;
    }
    next.clear();
    if (!around_->between.empty()) {
      std::string_view rest = text;
      const Fit fit = take(rest, around_->between, key);
      more_ = fit == Fit::yes;
      if (more_) text = rest;
      if (more_ || (fit == Fit::cut && !ended_)) return fit;
    }
    if (!around_->end.empty()) return take(text, around_->end, key);
    // Nothing is around the value: white space ends it.
    if (text.empty()) return ended_ ? Fit::yes : Fit::cut;
    return is_white(text[0]) ? Fit::yes : Fit::no;
  }

  // How much of what ends a call must stand there, where the answer ends within it: up to the first mark that
  // does not follow every value. An answer that ends before that may have been cut before another argument.
  std::string_view least_end() const {
    const std::string_view end = around_->end;
    const auto shared = static_cast<size_t>(std::ranges::mismatch(end, around_->next).in1 - end.begin());
    for (const text::MarkSpan& mark : text::marks_in(end)) {
      if (mark.end > shared) return end.substr(0, mark.end);
    }
    return end;
  }

  // Where to look for the end of a value: one that white space ends may be a list with white space in it.
  // Nothing: more of it has to arrive.
  std::optional<size_t> first_end(std::string_view text) const {
    if (!around_->end.empty()) return 0;
    text::LooseReader reader(text);
    if (reader.value()) return text.size() - reader.rest().size();
    if (reader.ended() && !ended_) return std::nullopt;
    return 0;
  }

  Fit read_values(std::string key) {
    for (;;) {
      if (const Fit fit = before_value(text_, key); fit != Fit::yes) return fit;
      const std::string_view whole = text_;
      std::string next;
      const std::optional<size_t> first = first_end(whole);
      if (!first) return Fit::cut;
      for (size_t at = *first;; ++at) {
        std::string_view rest = whole.substr(at), left = rest;
        const Fit fit = follower(rest, key, next);
        const bool last = fit == Fit::cut && ended_ && take(left, least_end(), key) == Fit::yes;
        if (fit == Fit::yes || last) {
          set(key, whole.substr(0, at));
          text_ = rest;
          if (last) return take_rest();
          break;
        }
        if (fit == Fit::cut && !ended_) return fit;
        if (at == whole.size()) return Fit::no;
      }
      if (next.empty()) return Fit::yes;
      key = std::move(next);
    }
  }

  void set(const std::string& key, std::string_view value) {
    const bool quoted = around_ == &shown_.text && shown_.text.before != shown_.other.before;
    calls_.back().arguments[key] =
        quoted ? ordered_json(std::string(value)) : text::typed_argument(value, tools_, name_, key);
  }

  const ShownCall& shown_;
  std::string_view text_; // that is left
  const ordered_json& tools_;
  const bool ended_;
  std::string name_;
  const ShownCall::Around* around_ = nullptr; // the value
  bool more_ = false;                         // another call follows
  std::vector<ToolCall> calls_;
  std::string left_; // of calls that cannot be read
};

} // namespace

std::optional<std::string> ShownCall::written(const TemplateProbe& render, const CallStyle& style,
                                              const std::vector<std::string>& begins,
                                              std::string_view content,
                                              const std::vector<TemplateProbe::Call>& calls) {
  const std::optional<std::string> plain = render({TemplateProbe::said(content)}),
                                   text = render({TemplateProbe::with_calls(content, calls, style)});
  if (!plain || !text) return std::nullopt;
  const size_t from = text::common_beginning(*text, *plain), name = text->find(calls[0].name, from);
  if (name == not_there) return std::nullopt;
  size_t begin = not_there;
  for (const std::string& mark : begins) begin = std::min(begin, text->find(mark, from));
  if (begin > name) begin = from; // nothing but words, or nothing at all
  // What ends a plain text, too, may begin within the name: answer-to-be-found, and f_to_be_found.
  const size_t end = std::max(text->size() - text::common_end(*text, *plain), name + calls[0].name.size());
  return std::string(text::trimmed(std::string_view(*text).substr(begin, end - begin)));
}

std::optional<ShownCall> ShownCall::of(const TemplateProbe& render, const CallStyle& style,
                                       const std::vector<std::string>& begins) {
  return ShownCallFinder(render, style, begins).find();
}

ReadCalls ShownCall::read(std::string_view answer, const ordered_json& tools, bool ended) const {
  return ShownCallReader(*this, answer, tools, ended).read();
}

} // namespace pumice
