#include "form/chat_form.h"

#include <algorithm>
#include <optional>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "form/json_schema.h"
#include "form/json_values.h"
#include "text/chat/argument_types.h"
#include "text/chat/loose_values.h"
#include "text/chat/mark_spans.h"
#include "text/unicode/unicode.h"

namespace pumice {

namespace {

using form::Characters;
using form::Grammar;
using form::Part;
using form::unlimited;
using form::ValueStyle;
using nlohmann::ordered_json;
using Arguments = WrittenCall::Arguments;

// Most white space where a call may have some.
constexpr uint32_t most_space = 8;

// A special token, or text.
struct Piece {
  std::string_view text;
  std::optional<uint32_t> special;
};

std::vector<Piece> pieces_of(const Tokenizer& tokenizer, std::string_view text) {
  std::vector<Piece> pieces;
  for (const uint32_t id : tokenizer.encode(text, false)) {
    if (!tokenizer.is_special(id)) continue;
    const std::string_view piece = tokenizer.piece(id);
    const size_t at = piece.empty() ? std::string_view::npos : text.find(piece);
    if (at == std::string_view::npos) continue;
    if (at > 0) pieces.push_back({text.substr(0, at), {}});
    pieces.push_back({piece, id});
    text.remove_prefix(at + piece.size());
  }
  if (!text.empty()) pieces.push_back({text, {}});
  return pieces;
}

bool is_space(char c) {
  return text::ascii_white_space.find(c) != std::string_view::npos;
}

class ChatGrammar {
public:
  ChatGrammar(const ChatFormSource& source, std::vector<std::string>& notes)
      : source_(source), notes_(notes) {}

  Result<Grammar> build() {
    if (has_form(source_.form)) {
      PUMICE_TRY(grammar_, parse_form(source_.form));
      form_ = grammar_.call(grammar_.root);
    }
    PUMICE_CHECK(choose_tools());
    Result<Part> whole = source_.marks.channels     ? in_channels()
                         : form_                    ? Result<Part>(with_form())
                         : source_.marks.recipients ? to_recipients()
                                                    : with_calls();
    if (!whole.ok()) return whole.error();
    grammar_.root = grammar_.add_rule("the answer", *whole);
    return std::move(grammar_);
  }

private:
  bool is_choice(std::string_view choice) const { return source_.tool_choice == choice; }
  bool must_call() const { return !is_choice("auto") && !is_choice("none"); }

  Status choose_tools() {
    names_ = text::names_of_tools(source_.tools);
    if (!must_call()) return {};
    if (names_.empty()) {
      return Error{Code::invalid_argument,
                   fmt::format("the tool choice is '{}', and the chat has no tools", source_.tool_choice)};
    }
    if (form_)
      return Error{Code::invalid_argument, "an answer that must call a tool cannot have another form"};
    if (is_choice("required")) return {};
    if (std::ranges::find(names_, source_.tool_choice) == names_.end()) {
      return Error{Code::invalid_argument,
                   fmt::format("the tool choice is '{}': expected auto, none, required or one of the chat's "
                               "tools: {}",
                               source_.tool_choice, fmt::join(names_, ", "))};
    }
    names_ = {std::string(source_.tool_choice)};
    return {};
  }

  Part text(std::string_view bytes) { return grammar_.text(std::string(bytes)); }
  Part space(uint32_t most) {
    return grammar_.repeat(grammar_.one_of({{'\t', '\n'}, {'\r', '\r'}, {' ', ' '}}), 0, most);
  }
  Part any_of(std::vector<std::string> texts) {
    std::vector<Part> parts;
    for (const std::string& each : texts) parts.push_back(text(each));
    return grammar_.choice(std::move(parts));
  }

  // A mark, spelled or as the special tokens that it is made of.
  Part mark(std::string_view spelled) {
    std::vector<Part> parts;
    for (const Piece& piece : pieces_of(source_.tokenizer, spelled)) {
      const Part itself = text(piece.text);
      parts.push_back(
          piece.special ? grammar_.choice({itself, grammar_.one_of(form::special_character(*piece.special))})
                        : itself);
    }
    return grammar_.sequence(std::move(parts));
  }

  // All characters and special tokens.
  Part anything() {
    Characters all = form::any_character();
    all.push_back({form::first_special, form::last_special});
    return grammar_.repeat(grammar_.one_of(std::move(all)), 0, unlimited);
  }

  // What a template wrote, with white space as it may stand between marks and in JSON.
  Part literal(std::string_view written) {
    std::vector<Part> parts{text("")};
    const WrittenId id = find_id(written);
    const std::string_view before = written.substr(0, std::min(id.begin, written.size()));
    add_literal(before, parts);
    if (id.begin == std::string_view::npos) return grammar_.sequence(std::move(parts));
    std::vector<Part> inner{text("")};
    add_literal(written.substr(id.begin, id.value - id.begin), inner);
    inner.push_back(grammar_.repeat(name_character(), 0, 64));
    add_literal(written.substr(id.value_end, id.end - id.value_end), inner);
    parts.push_back(grammar_.optional(grammar_.sequence(std::move(inner))));
    parts.push_back(literal(written.substr(id.end)));
    return grammar_.sequence(std::move(parts));
  }

  void add_literal(std::string_view written, std::vector<Part>& parts) {
    size_t done = 0;
    for (const text::MarkSpan& span : text::marks_in(written)) {
      add_words(written.substr(done, span.begin - done), parts);
      if (span.begin > 0) parts.push_back(space(most_space));
      parts.push_back(mark(written.substr(span.begin, span.end - span.begin)));
      if (span.end < written.size()) parts.push_back(space(most_space));
      done = span.end;
    }
    add_words(written.substr(done), parts);
  }

  void add_words(std::string_view written, std::vector<Part>& parts) {
    constexpr std::string_view punctuation = "[]{},:";
    std::string word;
    const auto end_word = [&] {
      if (!word.empty()) parts.push_back(mark(std::exchange(word, {})));
    };
    for (size_t i = 0; i < written.size(); ++i) {
      const char c = written[i];
      const bool last = i + 1 == written.size();
      if (is_space(c)) {
        const bool within_words = !word.empty() && !last && text::is_name_character(word.back()) &&
                                  text::is_name_character(written[i + 1]);
        if (within_words) {
          word += c;
          continue;
        }
        end_word();
        while (i + 1 < written.size() && is_space(written[i + 1])) ++i;
        parts.push_back(space(most_space));
        continue;
      }
      word += c;
      if (last || is_space(written[i + 1])) continue;
      if (punctuation.find(c) == std::string_view::npos &&
          punctuation.find(written[i + 1]) == std::string_view::npos)
        continue;
      end_word();
      parts.push_back(space(most_space));
    }
    end_word();
  }

  Part name_character() {
    return grammar_.one_of(
        form::united({{'0', '9'}, {'A', 'Z'}, {'a', 'z'}, {'_', '_'}, {'-', '-'}, {'.', '.'}}));
  }

  // ---- free text ----

  std::vector<Part> forbidden_marks() {
    std::vector<Part> parts;
    const auto is_block = [](const std::string& each) { return each == "```" || each == "```json"; };
    for (const auto* marks : {&source_.marks.call_begins, &source_.marks.call_ends}) {
      for (const std::string& each : *marks) {
        if (!is_block(each)) parts.push_back(mark(each));
      }
    }
    return parts;
  }

  // What begins a call that no mark stands before.
  Part bare_beginning() {
    const auto key = [&](Part name) {
      return grammar_.sequence({text("\""), name, text("\""), space(unlimited), text(":"), space(unlimited)});
    };
    const Part names = any_of(text::names_of_tools(source_.tools));
    const Part type = grammar_.sequence({key(text("type")), text("\"function\"")});
    const Part name = key(any_of({"name", "tool_name"}));
    const Part object = source_.marks.bare_calls ? grammar_.choice({name, type})
                                                 : grammar_.sequence({name, text("\""), names, text("\"")});
    return grammar_.choice({grammar_.sequence({text("{"), space(unlimited), object}),
                            grammar_.sequence({text("["), space(unlimited), names, text("(")})});
  }

  // Text in which no call begins. `ends`: what it does not have either.
  Part free_text(std::vector<Part> ends, bool begins_content) {
    std::vector<Grammar::Term> terms{{anything()}};
    if (!source_.tools.empty()) {
      for (const Part each : forbidden_marks()) ends.push_back(each);
    }
    if (!ends.empty())
      terms.push_back({grammar_.sequence({anything(), grammar_.choice(std::move(ends))}), true, true});
    if (begins_content && !text::names_of_tools(source_.tools).empty()) {
      std::vector<Part> before{space(unlimited)};
      for (const AnswerMarks::Pair& each : source_.marks.thinking)
        before.push_back(grammar_.sequence({anything(), mark(text::trimmed(each.end)), space(unlimited)}));
      terms.push_back(
          {grammar_.sequence({grammar_.choice(std::move(before)), bare_beginning()}), true, true});
    }
    return grammar_.call(grammar_.add_rule("text", std::move(terms), true));
  }

  enum class Thinking { none, begun, possible };
  Thinking thinking() const {
    const std::string_view prompt = text::trimmed(source_.prompt);
    for (const AnswerMarks::Pair& each : source_.marks.thinking) {
      if (prompt.ends_with(text::trimmed(each.begin))) return Thinking::begun;
      if (prompt.ends_with(text::trimmed(each.end))) return Thinking::none;
    }
    return source_.may_think && !source_.marks.thinking.empty() && knows_thoughts() ? Thinking::possible
                                                                                    : Thinking::none;
  }

  // Where the template says nothing of thinking, the model may have learnt it if its mark is one token.
  bool knows_thoughts() const {
    return !source_.marks.thinking_first ||
           std::ranges::any_of(source_.marks.thinking, [&](const AnswerMarks::Pair& each) {
             return source_.tokenizer.encode(each.begin, false).size() == 1;
           });
  }

  // Thoughts before something else. `ended`: their last mark has to come.
  Part thoughts(bool ended) {
    std::vector<Part> all;
    const Thinking how = thinking();
    if (how == Thinking::none) return text("");
    for (const AnswerMarks::Pair& each : source_.marks.thinking) {
      const Part end = mark(text::trimmed(each.end)), thought = free_text({end}, false);
      const Part close = grammar_.sequence({end, space(most_space)});
      const Part whole = grammar_.sequence({thought, ended ? close : grammar_.optional(close)});
      all.push_back(how == Thinking::begun ? whole
                                           : grammar_.sequence({mark(text::trimmed(each.begin)), whole}));
    }
    const Part any = grammar_.choice(std::move(all));
    return how == Thinking::begun ? any : grammar_.optional(any);
  }

  // ---- calls ----

  ordered_json schema_of(const std::string& name) const {
    const ordered_json* given = text::member(text::find_tool(source_.tools, name), "parameters");
    ordered_json schema = given && given->is_object() ? *given : ordered_json::object();
    if (!schema.contains("type")) schema["type"] = "object";
    return schema;
  }

  // The arguments of a tool, with what is written before and behind them all.
  Result<Part> arguments(const std::string& name, Arguments how) {
    const ordered_json schema = schema_of(name);
    Result<Part> part = arguments_of(schema, how);
    if (part.ok() && grammar_.parts[*part].kind != Grammar::Kind::never) return part;
    notes_.push_back(fmt::format("the arguments of the tool '{}' do not follow its schema: {}", name,
                                 part.ok() ? "nothing is valid for it" : part.error().message));
    return arguments_of({{"type", "object"}}, how);
  }

  Result<Part> arguments_of(const ordered_json& schema, Arguments how) {
    if (how == Arguments::json)
      return form::add_json_schema(grammar_, schema, ValueStyle::call, special_marks());
    const WrittenCall& call = *source_.call;
    const bool tags = how == Arguments::tags;
    std::optional<Part> raw_end;
    if (tags) {
      const Part next = literal(text::trimmed(call.before_name)), last = literal(first_mark(call.end));
      raw_end = grammar_.sequence(
          {mark(text::trimmed(call.after_value)), space(unlimited), grammar_.choice({next, last})});
    }
    const ValueStyle style = tags ? ValueStyle::raw : ValueStyle::python;
    PUMICE_TRY(const form::JsonMembers members,
               form::add_json_members(grammar_, schema, style, raw_end, special_marks()));
    std::vector<Part> fields, names;
    for (const form::JsonMembers::Named& each : members.named) {
      names.push_back(text(each.name));
      const Part field = argument(names.back(), each.value, tags);
      fields.push_back(each.required ? field : grammar_.optional(field));
    }
    if (members.others) {
      std::vector<Grammar::Term> terms{{grammar_.repeat(name_character(), 1, unlimited)}};
      if (!names.empty()) terms.push_back({grammar_.choice(std::move(names)), true});
      const Part name = grammar_.call(grammar_.add_rule("the name of an argument", std::move(terms), true));
      fields.push_back(grammar_.repeat(argument(name, *members.others, tags), 0, unlimited));
    }
    if (tags) {
      fields.insert(fields.begin(), text(""));
      return grammar_.sequence(std::move(fields));
    }
    PUMICE_TRY(const Part whole, form::add_json_schema(grammar_, schema, style, special_marks()));
    return in_parentheses(members, std::move(fields), whole);
  }

  // Marks around calls that are special tokens: strings may have them.
  Characters special_marks() const {
    std::vector<uint32_t> ids;
    for (const auto* marks : {&source_.marks.call_begins, &source_.marks.call_ends}) {
      for (const std::string& each : *marks) {
        for (const Piece& piece : pieces_of(source_.tokenizer, each)) {
          if (piece.special && std::ranges::count(source_.ends, *piece.special) == 0)
            ids.push_back(*piece.special);
        }
      }
    }
    std::ranges::sort(ids);
    Characters all;
    for (const uint32_t id : ids) {
      const Characters one = form::special_character(id);
      if (one.empty() || (!all.empty() && all.back().last == one[0].last)) continue;
      if (!all.empty() && all.back().last + 1 == one[0].first) {
        all.back().last = one[0].last;
      } else {
        all.push_back(one[0]);
      }
    }
    return all;
  }

  // White space of Python, with comments.
  Part gap() {
    if (!gap_) {
      const Part words = grammar_.repeat(grammar_.one_of(form::all_but({{'\n', '\n'}})), 0, unlimited);
      const Part comment = grammar_.sequence({text("#"), words, text("\n"), space(most_space)});
      gap_ = grammar_.add_rule(
          "white space", grammar_.sequence({space(most_space), grammar_.repeat(comment, 0, unlimited)}));
    }
    return grammar_.call(*gap_);
  }

  // Arguments of Python, the first few of which may be without their names. `whole`: all of them, as an
  // object.
  Part in_parentheses(const form::JsonMembers& members, std::vector<Part> fields, Part whole) {
    constexpr size_t most_unnamed = 4;
    const Part comma = grammar_.sequence({gap(), text(","), gap()});
    std::vector<Part> ways{fields.empty() ? text("") : grammar_.list(comma, fields),
                           grammar_.sequence({text("**"), whole})};
    std::vector<Part> unnamed{text("")};
    for (size_t i = 0; i < std::min(members.named.size(), most_unnamed); ++i) {
      if (i > 0) unnamed.push_back(comma);
      unnamed.push_back(members.named[i].value);
      std::vector<Part> way = unnamed;
      const std::vector<Part> rest(fields.begin() + static_cast<ptrdiff_t>(i) + 1, fields.end());
      const bool needed =
          std::any_of(members.named.begin() + static_cast<ptrdiff_t>(i) + 1, members.named.end(),
                      [](const form::JsonMembers::Named& each) { return each.required; });
      if (!rest.empty()) {
        const Part more = grammar_.sequence({comma, grammar_.list(comma, rest)});
        way.push_back(needed ? more : grammar_.optional(more));
      }
      ways.push_back(grammar_.sequence(std::move(way)));
    }
    const Part end = grammar_.optional(grammar_.sequence({space(1), text(",")}));
    const Part inside = grammar_.sequence({gap(), grammar_.choice(std::move(ways)), end, gap()});
    return form::json_in_brackets(grammar_, '(', inside, ')');
  }

  Part argument(Part name, Part value, bool tags) {
    if (!tags) return grammar_.sequence({name, space(1), text("="), space(1), value});
    const WrittenCall& call = *source_.call;
    std::vector<Part> before{literal(call.before_text)};
    if (call.before_other != call.before_text) before.push_back(literal(call.before_other));
    return grammar_.sequence({literal(call.before_name), name, grammar_.choice(std::move(before)), value,
                              mark_after(call.after_value)});
  }

  // White space behind a raw value is the value's own.
  Part mark_after(std::string_view written) {
    return grammar_.sequence({space(1), literal(text::trimmed(written))});
  }

  static std::string_view first_mark(std::string_view written) {
    for (const text::MarkSpan& span : text::marks_in(written))
      return written.substr(span.begin, span.end - span.begin);
    return text::trimmed(written);
  }

  bool has_end_mark(std::string_view written) const {
    return std::ranges::any_of(source_.marks.call_ends, [&](const std::string& each) {
      return written.find(each) != std::string_view::npos;
    });
  }

  // Without what follows a token that ends the answer.
  std::string before_end(std::string written) const {
    for (const uint32_t id : source_.ends) {
      const std::string_view piece = source_.tokenizer.piece(id);
      if (!piece.empty()) written = written.substr(0, written.find(piece));
    }
    return written;
  }

  Part word() {
    return grammar_.repeat(grammar_.one_of(form::united({{'0', '9'}, {'A', 'Z'}, {'a', 'z'}, {'_', '_'}})), 1,
                           32);
  }

  // With a room before it, as in default_api.weather(), and as a method: brave_search.call().
  Part python_name(const std::string& name) {
    return grammar_.sequence({grammar_.optional(grammar_.sequence({word(), text(".")})), text(name),
                              grammar_.optional(text(".call"))});
  }

  Result<Part> calls() {
    const WrittenCall& call = *source_.call;
    std::vector<Part> bodies;
    const size_t digits = call.middle.starts_with(":0") ? 2 : 0; // Kimi counts calls
    for (const std::string& name : names_) {
      PUMICE_TRY(const Part all, arguments(name, call.arguments));
      std::vector<Part> parts{call.arguments == Arguments::python ? python_name(name) : text(name)};
      if (digits > 0)
        parts.push_back(grammar_.sequence({text(":"), grammar_.repeat(grammar_.one_of({{'0', '9'}}), 1, 3)}));
      parts.push_back(literal(std::string_view(call.middle).substr(digits)));
      parts.push_back(all);
      bodies.push_back(grammar_.sequence(std::move(parts)));
    }
    Part body = grammar_.choice(std::move(bodies));
    // As a statement of Python, but not in a list.
    if (call.arguments == Arguments::python && !text::trimmed(call.begin).ends_with('[')) {
      const Part printed =
          grammar_.sequence({text("print("), space(most_space), body, space(most_space), text(")")});
      const Part assigned = grammar_.sequence({word(), space(1), text("="), space(1), body});
      body = grammar_.choice({body, printed, assigned});
    }
    std::vector<Part> between;
    if (!call.between.empty() && before_end(call.between) == call.between)
      between.push_back(literal(call.between));
    if (call.arguments == Arguments::python) {
      between.push_back(grammar_.sequence({text(","), space(most_space)}));
      between.push_back(grammar_.sequence({text("\n"), space(most_space)}));
    }
    if (between.empty()) return body;
    const Part next = grammar_.sequence({grammar_.choice(std::move(between)), body});
    return grammar_.sequence({body, grammar_.repeat(next, 0, unlimited)});
  }

  // The beginnings of a call as the template writes it, and without the first of its marks.
  std::vector<Part> beginnings() {
    const std::string& whole = source_.call->begin;
    std::vector<Part> parts{literal(whole)};
    const auto begins = [&](size_t at, const std::string& each) {
      return whole.compare(at, each.size(), each) == 0;
    };
    for (size_t at = 1; at < whole.size(); ++at) {
      if (std::ranges::any_of(source_.marks.call_begins,
                              [&](const std::string& each) { return begins(at, each); }))
        parts.push_back(literal(std::string_view(whole).substr(at)));
    }
    // Marks that the template knows and does not write, as <|python_start|>.
    const size_t object = whole.find_first_of("{[");
    if (source_.call->arguments == Arguments::tags || object == std::string::npos) return parts;
    for (const std::string& each : source_.marks.call_begins) {
      if (whole.find(each) != std::string::npos || each.starts_with("```") || each.ends_with('=') ||
          each.ends_with('"'))
        continue;
      parts.push_back(grammar_.sequence(
          {mark(each), space(most_space), literal(std::string_view(whole).substr(object))}));
    }
    return parts;
  }

  // What a call begins with whose first marks are missing, which its last one shows to be a call.
  std::optional<std::string_view> without_marks() const {
    const std::string_view whole = source_.call->begin;
    const std::vector<text::MarkSpan> marks = text::marks_in(whole);
    if (marks.empty() || whole.ends_with('=') || whole.ends_with("=\"")) return {}; // the name is in a tag
    return text::trimmed(whole.substr(marks.back().end));
  }

  // The end of a call as the template writes it, and without the first of its marks, if it begins with them.
  Part ending(const std::string& whole) {
    std::vector<Part> parts{literal(whole)};
    size_t end = 0; // of the marks so far
    for (const text::MarkSpan& mark : text::marks_in(whole)) {
      if (!text::trimmed(std::string_view(whole).substr(end, mark.begin - end)).empty()) break;
      const std::string_view rest = std::string_view(whole).substr(mark.begin);
      if (end > 0 && has_end_mark(rest))
        parts.push_back(grammar_.sequence({space(most_space), literal(rest)}));
      end = mark.end;
    }
    return grammar_.choice(std::move(parts));
  }

  Result<Part> with_calls() {
    const bool none = is_choice("none");
    if (none) return free_text({}, true);
    if (!source_.call.ok()) return source_.call.error();
    for (const std::string& name : names_) {
      if (!std::ranges::all_of(name, text::is_name_character))
        return Error{Code::unsupported,
                     fmt::format("the name of the tool '{}' is none that calls could have", name)};
    }
    const WrittenCall& call = *source_.call;
    PUMICE_TRY(const Part inner, calls());
    const std::string end = before_end(call.end);
    const bool closed = has_end_mark(end);
    // What a call may end with where nothing follows it.
    std::vector<Part> open_ends, all_ends;
    if (!closed) open_ends.push_back(literal(end));
    for (const text::MarkSpan& span : text::marks_in(end)) {
      if (!closed || call.arguments == Arguments::tags) break;
      open_ends.push_back(literal(text::trimmed(std::string_view(end).substr(0, span.begin))));
      break;
    }
    for (const text::MarkSpan& span : text::marks_in(end)) {
      if (closed && span.end < end.size())
        open_ends.push_back(literal(std::string_view(end).substr(0, span.end)));
    }
    all_ends = open_ends;
    if (closed) all_ends.push_back(literal(end));

    std::vector<Part> begins = beginnings();
    if (call.bare) begins.erase(begins.begin());
    std::vector<Part> rest{text("")}, last;
    const Part free = free_text({}, true);
    if (!begins.empty() && closed) {
      std::vector<Part> all = begins;
      if (const auto name = without_marks(); name && !must_call()) all.push_back(literal(*name));
      const Part whole = grammar_.sequence({grammar_.choice(std::move(all)), inner, ending(end)});
      rest.push_back(grammar_.repeat(grammar_.sequence({whole, free}), 0, unlimited));
      last.push_back(grammar_.sequence({whole, free, rest.back()}));
    }
    if (!begins.empty() && !open_ends.empty()) {
      const Part open = grammar_.sequence({grammar_.choice(std::move(begins)), inner,
                                           grammar_.choice(std::move(open_ends)), space(most_space)});
      const Part more = grammar_.repeat(open, 0, unlimited);
      last.push_back(grammar_.sequence({open, more}));
      rest.push_back(more);
    }
    // Without a mark, at the beginning of an answer.
    std::optional<Part> bare;
    const size_t object = call.begin.find('{');
    if (call.arguments == Arguments::json && object != std::string::npos) {
      bare = grammar_.sequence({literal(std::string_view(call.begin).substr(object)), inner,
                                grammar_.choice(std::move(all_ends)), space(most_space)});
      last.push_back(*bare);
    }
    if (must_call())
      return grammar_.sequence({thoughts(false), space(most_space), grammar_.choice(std::move(last))});
    rest.insert(rest.begin(), free);
    const Part usual = grammar_.sequence(std::move(rest));
    if (!bare) return usual;
    std::vector<Part> before{text("")};
    for (const AnswerMarks::Pair& each : source_.marks.thinking)
      before.push_back(grammar_.sequence({free, mark(text::trimmed(each.end))}));
    return grammar_.choice(
        {usual, grammar_.sequence({grammar_.choice(std::move(before)), space(most_space), *bare})});
  }

  Part with_form() {
    std::vector<Part> all{*form_};
    for (const AnswerMarks::Pair& each : source_.marks.content)
      all.push_back(grammar_.sequence({mark(text::trimmed(each.begin)), space(most_space), *form_,
                                       space(most_space), mark(text::trimmed(each.end))}));
    std::vector<Part> parts{thoughts(true)};
    if (source_.marks.recipients)
      parts.push_back(text(text::trimmed(source_.prompt).ends_with(">>>") ? "all\n" : ">>>all\n"));
    parts.push_back(grammar_.choice(std::move(all)));
    return grammar_.sequence(std::move(parts));
  }

  // ---- Functionary ----

  Result<Part> to_recipients() {
    constexpr std::string_view begin = ">>>";
    const Part said = free_text({text(begin)}, false), next = text(begin);
    const Part for_people = grammar_.sequence({text("all\n"), said});
    std::vector<Part> all;
    for (const std::string& name : is_choice("none") ? std::vector<std::string>() : names_) {
      PUMICE_TRY(const Part part, arguments(name, Arguments::json));
      all.push_back(grammar_.sequence({text(name), text("\n"), part, space(most_space)}));
    }
    if (!must_call()) all.push_back(for_people);
    const Part any = grammar_.choice(std::move(all));
    std::vector<Part> parts{text("")};
    if (!text::trimmed(source_.prompt).ends_with(begin)) parts.push_back(next);
    if (must_call()) parts.push_back(grammar_.optional(grammar_.sequence({for_people, next})));
    parts.push_back(any);
    parts.push_back(grammar_.repeat(grammar_.sequence({next, any}), 0, unlimited));
    return grammar_.sequence(std::move(parts));
  }

  // ---- gpt-oss ----

  Result<Part> in_channels() {
    if (!text::trimmed(source_.prompt).ends_with("<|start|>assistant"))
      return Error{Code::unsupported,
                   "the prompt has begun the header of an answer, which its form does not know"};
    std::vector<Part> marks;
    for (const char* each : {"<|start|>", "<|channel|>", "<|message|>", "<|end|>", "<|return|>", "<|call|>"})
      marks.push_back(text(each));
    const Part any = grammar_.repeat(grammar_.one_of(form::any_character()), 0, unlimited);
    const Part said = grammar_.call(grammar_.add_rule(
        "text",
        std::vector<Grammar::Term>{{any},
                                   {grammar_.sequence({any, grammar_.choice(std::move(marks))}), true, true}},
        true));
    const Part channel = mark("<|channel|>"), message = mark("<|message|>");
    const auto in = [&](Part name, Part content) {
      return grammar_.sequence({channel, name, message, content});
    };
    const Part aside = in(any_of({"analysis", "commentary"}), said);
    const Part asides = grammar_.repeat(
        grammar_.sequence({aside, mark("<|end|>"), mark("<|start|>"), text("assistant")}), 0, unlimited);
    const Part json =
        grammar_.sequence({grammar_.optional(text(" ")), grammar_.optional(mark("<|constrain|>")),
                           grammar_.optional(text("json"))});
    if (is_choice("auto") && !form_) return in_loose_channels(said);
    if (form_) return grammar_.sequence({asides, channel, text("final"), json, message, *form_});
    const Part final = in(text("final"), said);
    if (is_choice("none")) return grammar_.sequence({asides, grammar_.choice({final, aside})});
    std::vector<Part> all;
    for (const std::string& name : names_) {
      PUMICE_TRY(const Part part, arguments(name, Arguments::json));
      const Part to = text(" to=functions." + name),
                 where = grammar_.sequence({channel, any_of({"commentary", "analysis"})});
      all.push_back(grammar_.sequence(
          {grammar_.choice({grammar_.sequence({to, where}), grammar_.sequence({where, to})}), json, message,
           part}));
    }
    if (!must_call()) all.insert(all.end(), {final, aside});
    return grammar_.sequence({asides, grammar_.choice(std::move(all))});
  }

  // Headers as models write them, too: doubled, without a text, to an assistant, with words of their own.
  // Only those that name a function have what follows them held.
  Result<Part> in_loose_channels(Part said) {
    constexpr uint32_t most_marks = 4; // of a header
    Characters no_mark = form::all_but({{'<', '<'}});
    const Part any_words = grammar_.repeat(grammar_.one_of(no_mark), 0, unlimited);
    std::vector<Part> functions{text("functions.")};
    for (const std::string& name : names_) functions.push_back(text(name));
    const Part words = grammar_.call(grammar_.add_rule(
        "the header of a text",
        std::vector<Grammar::Term>{
            {any_words},
            {grammar_.sequence({any_words, text("to="), grammar_.choice(std::move(functions))}), true, true}},
        true));
    const Part begin = grammar_.choice({mark("<|channel|>"), mark("<|constrain|>"), mark("<|start|>")}),
               end = grammar_.choice({mark("<|end|>"), mark("<|return|>"), mark("<|call|>")});
    const auto marked = [&](uint32_t least) {
      return grammar_.repeat(grammar_.sequence({begin, words}), least, most_marks);
    };
    const Part message = grammar_.repeat(mark("<|message|>"), 1, 2);
    std::vector<Part> all{grammar_.sequence({words, marked(0)}),
                          grammar_.sequence({words, marked(1), message, said})};
    for (const std::string& name : names_) {
      PUMICE_TRY(const Part part, arguments(name, Arguments::json));
      const Part to = grammar_.sequence({text("to="), grammar_.optional(text("functions.")), text(name)});
      const Part type = grammar_.optional(any_of({"json", "code", "text"}));
      const Part rest = grammar_.sequence({type, space(1), grammar_.optional(mark("<|constrain|>")), type});
      const Part channel = grammar_.optional(grammar_.sequence({mark("<|channel|>"), words}));
      all.push_back(grammar_.sequence({words, marked(0), to, rest, channel, mark("<|message|>"), part}));
    }
    const Part each = grammar_.choice(std::move(all));
    return grammar_.sequence({each, grammar_.repeat(grammar_.sequence({end, each}), 0, unlimited)});
  }

  const ChatFormSource& source_;
  std::vector<std::string>& notes_;
  Grammar grammar_;
  std::optional<Part> form_;
  std::optional<uint32_t> gap_;    // its rule
  std::vector<std::string> names_; // of the tools that may be called
};

} // namespace

Result<Grammar> chat_grammar(const ChatFormSource& source, std::vector<std::string>& notes) {
  return ChatGrammar(source, notes).build();
}

std::string spelled_bytes(const Tokenizer& tokenizer, std::string_view text) {
  std::string bytes;
  for (const Piece& piece : pieces_of(tokenizer, text))
    bytes += piece.special ? form::special_bytes(*piece.special) : std::string(piece.text);
  return bytes;
}

} // namespace pumice
