// Lark, as llguidance has it, but for what needs a lexer: a text fits if the rules allow it, however it would
// be cut into terminals.
#include <algorithm>
#include <map>

#include <utf8proc.h>

#include "form/grammar.h"
#include "form/regex.h"
#include "form/source_reader.h"
#include "io/bytes.h"

namespace pumice::form {

namespace {

// Most rules and terminals of a grammar.
constexpr size_t most_lark_rules = 5'000;

constexpr std::string_view lark_name_begin = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_";
constexpr std::string_view lark_name = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_0123456789";

// What %import may ask for.
constexpr std::string_view common_terminals = R"lark(
DIGIT: "0".."9"
HEXDIGIT: "a".."f" | "A".."F" | DIGIT
INT: DIGIT+
SIGNED_INT: ["+" | "-"] INT
DECIMAL: INT "." INT? | "." INT
EXPONENT: ("e" | "E") SIGNED_INT
FLOAT: INT EXPONENT | DECIMAL EXPONENT?
SIGNED_FLOAT: ["+" | "-"] FLOAT
NUMBER: FLOAT | INT
SIGNED_NUMBER: ["+" | "-"] NUMBER
ESCAPED_STRING: /"([^"\\\n]|\\.)*"/
LCASE_LETTER: "a".."z"
UCASE_LETTER: "A".."Z"
LETTER: UCASE_LETTER | LCASE_LETTER
WORD: LETTER+
CNAME: ("_" | LETTER) ("_" | LETTER | DIGIT)*
WS_INLINE: /[ \t]+/
WS: /[ \t\f\r\n]+/
CR: /\r/
LF: /\n/
NEWLINE: (CR? LF)+
SH_COMMENT: /#[^\n]*/
CPP_COMMENT: /\/\/[^\n]*/
SQL_COMMENT: /--[^\n]*/
C_COMMENT: /\/\*([^*]|\*+[^*\/])*\*+\//
)lark";

bool is_terminal(std::string_view name) {
  const size_t first = name.find_first_not_of('_');
  return first == std::string_view::npos || (name[first] >= 'A' && name[first] <= 'Z');
}

class LarkParser {
public:
  explicit LarkParser(std::string_view source) : in_(source, "the grammar") {
    ignores_ = source.find("%ignore") != std::string_view::npos;
  }

  Result<Grammar> parse() {
    if (ignores_) ignored_ = grammar_.add_rule("what %ignore names", std::vector<Grammar::Term>());
    PUMICE_CHECK(statements());
    if (imports_) {
      prefix_ = "common.";
      in_ = SourceReader(common_terminals, "the common terminals");
      PUMICE_CHECK(statements());
    }
    if (ignores_) {
      const Part some = grammar_.repeat(grammar_.choice(std::move(to_ignore_)), 0, unlimited);
      grammar_.rules[ignored_].terms = {{some, false}};
    }
    for (const auto& [name, rule] : names_) {
      if (grammar_.rules[rule].terms.empty())
        return Error{Code::invalid_argument,
                     fmt::format("the grammar uses {}, and does not say what it is", printable(name))};
    }
    const auto start = names_.find("start");
    if (start == names_.end())
      return Error{Code::invalid_argument, "the grammar has no rule with the name start"};
    grammar_.root = start->second;
    return std::move(grammar_);
  }

private:
  using Sequence = std::vector<Part>;

  void space(bool over_lines) { in_.space(over_lines, {"//", "#"}); }

  Result<std::string> name(std::string_view expected) {
    if (!in_.sees_one_of(lark_name_begin)) return in_.wrong(fmt::format("{} is expected", expected));
    const size_t length = std::min(in_.rest().find_first_not_of(lark_name), in_.rest().size());
    std::string found(in_.rest().substr(0, length));
    in_.go_to(in_.position() + length);
    return found;
  }

  // The rule or terminal of a name, which may be defined later.
  Result<uint32_t> rule_of(const std::string& name) {
    const auto [at, added] = names_.try_emplace(name, static_cast<uint32_t>(grammar_.rules.size()));
    if (added) {
      const char* const kind = is_terminal(name.substr(name.find('.') + 1)) ? "terminal" : "rule";
      grammar_.add_rule(fmt::format("the {} {}", kind, printable(name)), std::vector<Grammar::Term>());
    }
    if (grammar_.rules.size() > most_lark_rules)
      return in_.error(Code::unsupported, fmt::format("there are more than {} rules", most_lark_rules));
    return at->second;
  }

  Status statements() {
    for (;;) {
      space(true);
      if (in_.at_end()) return {};
      if (in_.take("%")) {
        PUMICE_CHECK(directive());
      } else {
        PUMICE_CHECK(definition());
      }
      space(false);
      if (!in_.at_end() && !in_.sees_one_of("\r\n")) return in_.wrong("the end of the line is expected");
    }
  }

  Status directive() {
    PUMICE_TRY(const std::string what, name("the name of a directive"));
    space(false);
    if (what == "import") return import();
    if (what != "ignore")
      return in_.error(Code::unsupported, fmt::format("%{} is not supported", printable(what)));
    in_terminal_ = true;
    PUMICE_TRY(const std::vector<Sequence> all, alternatives(0));
    for (const Sequence& each : all) to_ignore_.push_back(grammar_.sequence(each));
    return {};
  }

  // %import common.INT, with -> OTHER_NAME or not, and %import common (INT, WS).
  Status import() {
    PUMICE_TRY(const std::string from, name("common"));
    if (from != "common" || !in_.sees_one_of(". ("))
      return in_.error(Code::unsupported, "only terminals of common can be imported");
    imports_ = true;
    if (in_.take(".")) {
      PUMICE_TRY(const std::string found, name("the name of a terminal"));
      std::string as = found;
      space(false);
      if (in_.take("->")) {
        space(false);
        PUMICE_TRY(as, name("the name of a terminal"));
      }
      return import(found, as);
    }
    space(false);
    if (!in_.take("(")) return in_.wrong("a . or a ( is expected");
    do {
      space(true);
      PUMICE_TRY(const std::string found, name("the name of a terminal"));
      PUMICE_CHECK(import(found, found));
      space(true);
    } while (in_.take(","));
    return in_.take(")") ? Status() : in_.wrong("a ) is expected");
  }

  Status import(const std::string& from, const std::string& as) {
    if (common_terminals.find("\n" + from + ":") == std::string_view::npos)
      return in_.error(Code::unsupported, fmt::format("common.{} cannot be imported", printable(from)));
    PUMICE_TRY(const uint32_t rule, rule_of("common." + from));
    // It may have been used already: that name then is one more rule.
    const auto [at, added] = names_.try_emplace(as, rule);
    if (added || at->second == rule) return {};
    if (!grammar_.rules[at->second].terms.empty())
      return in_.wrong(fmt::format("{} is there twice", printable(as)));
    grammar_.rules[at->second].terms = {{grammar_.call(rule), false}};
    return {};
  }

  Status definition() {
    while (in_.take("?") || in_.take("!")) {
    } // how a tree is made of the text
    PUMICE_TRY(const std::string found, name("the name of a rule or a terminal"));
    PUMICE_TRY(const uint32_t rule, rule_of(prefix_ + found));
    if (in_.take(".")) in_.number(); // which one a lexer prefers
    space(false);
    if (in_.sees("{") || in_.sees("::"))
      return in_.error(Code::unsupported, "rules with parameters are not supported");
    if (in_.sees("[")) return in_.error(Code::unsupported, "attributes of rules ([...]) are not supported");
    if (!in_.take(":")) return in_.wrong("a : is expected after the name of a rule or a terminal");
    if (!grammar_.rules[rule].terms.empty())
      return in_.wrong(fmt::format("{} is there twice", printable(found)));
    in_terminal_ = is_terminal(found);
    PUMICE_TRY(std::vector<Sequence> all, alternatives(0));
    grammar_.rules[rule].terms = {{without_left_recursion(rule, std::move(all)), false}};
    return {};
  }

  // a: a x | y   is   a: y x*
  Part without_left_recursion(uint32_t rule, std::vector<Sequence> all) {
    std::vector<Part> begins, goes_on;
    for (Sequence& each : all) {
      const bool left = !each.empty() && grammar_.parts[each[0]].kind == Grammar::Kind::rule &&
                        grammar_.parts[each[0]].rule == rule;
      if (!left) {
        begins.push_back(grammar_.sequence(std::move(each)));
      } else if (each.size() > 1) {
        goes_on.push_back(grammar_.sequence({each.begin() + 1, each.end()}));
      }
    }
    const Part first = grammar_.choice(std::move(begins));
    if (goes_on.empty()) return first;
    return grammar_.sequence({first, grammar_.repeat(grammar_.choice(std::move(goes_on)), 0, unlimited)});
  }

  Result<std::vector<Sequence>> alternatives(uint32_t depth) {
    if (depth > most_nested)
      return in_.error(Code::unsupported, fmt::format("more than {} groups lie in each other", most_nested));
    std::vector<Sequence> all;
    space(true);
    in_.take("|");
    for (;;) {
      PUMICE_TRY(Sequence each, sequence(depth));
      all.push_back(std::move(each));
      if (in_.take("->")) { // a name in the tree
        space(false);
        PUMICE_TRY(const std::string ignored, name("a name"));
      }
      // The next line goes on with this one if it begins with |.
      const size_t end = in_.position();
      space(true);
      if (in_.take("|")) continue;
      if (depth == 0) in_.go_to(end);
      return all;
    }
  }

  Result<Part> group(uint32_t depth, const char* end) {
    PUMICE_TRY(std::vector<Sequence> all, alternatives(depth + 1));
    if (!in_.take(end)) return in_.wrong(fmt::format("a {} is expected", end));
    std::vector<Part> parts;
    for (Sequence& each : all) parts.push_back(grammar_.sequence(std::move(each)));
    return grammar_.choice(std::move(parts));
  }

  Result<Sequence> sequence(uint32_t depth) {
    Sequence all;
    for (;;) {
      space(depth > 0);
      if (in_.at_end() || in_.sees_one_of("|)]\r\n") || in_.sees("->")) return all;
      PUMICE_TRY(const Part part, atom(depth));
      space(depth > 0);
      PUMICE_TRY(const Part repeated, repetition(part));
      all.push_back(repeated);
    }
  }

  // One part, without its repetitions.
  Result<Part> atom(uint32_t depth) {
    if (in_.take("(")) return group(depth, ")");
    if (in_.take("[")) {
      PUMICE_TRY(const Part part, group(depth, "]"));
      return grammar_.optional(part);
    }
    if (in_.sees("\"")) {
      PUMICE_TRY(const Part part, text_or_range());
      return then_ignored(part);
    }
    if (in_.take("/")) {
      PUMICE_TRY(const Part part, regex());
      return then_ignored(part);
    }
    if (in_.sees_one_of(lark_name_begin)) return reference();
    if (in_.sees("<"))
      return in_.error(Code::unsupported, "tokens in a grammar (<...>) are not supported: write their text");
    if (in_.sees_one_of("~&"))
      return in_.error(Code::unsupported, "~ and & between terminals are not supported");
    if (in_.take("%")) {
      PUMICE_TRY(const std::string what, name("the name of a directive"));
      return in_.error(Code::unsupported, fmt::format("%{} within a rule is not supported", printable(what)));
    }
    if (in_.sees_one_of("*+?{")) return in_.wrong("there is nothing that could be repeated");
    return in_.wrong("a name, a text in quotes, a /regular expression/ or a group is expected");
  }

  Result<Part> reference() {
    const size_t begin = in_.position();
    PUMICE_TRY(const std::string found, name("a name"));
    if (in_.sees("{") && in_.rest().size() > 1 &&
        lark_name_begin.find(in_.rest()[1]) != std::string_view::npos)
      return in_.error(Code::unsupported, "rules with parameters are not supported");
    if (in_terminal_ && !is_terminal(found)) {
      in_.go_to(begin);
      return in_.wrong(fmt::format("the rule {} stands in a terminal", printable(found)));
    }
    PUMICE_TRY(const uint32_t rule, rule_of(prefix_ + found));
    return is_terminal(found) ? then_ignored(grammar_.call(rule)) : grammar_.call(rule);
  }

  // What %ignore names may follow each text and terminal of a rule.
  Part then_ignored(Part part) {
    return ignores_ && !in_terminal_ ? grammar_.sequence({part, grammar_.call(ignored_)}) : part;
  }

  Result<Part> repetition(Part part) {
    if (in_.take("?")) return grammar_.optional(part);
    if (in_.take("*")) return grammar_.repeat(part, 0, unlimited);
    if (in_.take("+")) return grammar_.repeat(part, 1, unlimited);
    const bool braces = in_.take("{");
    if (!braces &&
        !(in_.sees("~") && in_.rest().find_first_of("0123456789") == in_.rest().find_first_not_of("~ \t")))
      return part;
    if (!braces) in_.take("~");
    space(false);
    const std::optional<uint32_t> low = in_.number();
    if (!low && !(braces && in_.sees(","))) return in_.wrong("a number is expected");
    const uint32_t least = low.value_or(0);
    uint32_t most = least;
    space(false);
    if (in_.take(braces ? "," : "..")) {
      space(false);
      const std::optional<uint32_t> high = in_.number();
      if (!high && !braces) return in_.wrong("a number is expected after ..");
      most = high.value_or(unlimited);
    }
    space(false);
    if (braces && !in_.take("}")) return in_.wrong("a } is expected");
    if (most < least) return in_.wrong("a repetition has a largest number below its smallest one");
    return grammar_.repeat(part, least, most);
  }

  // "a", "a"i, "a".."z".
  Result<Part> text_or_range() {
    PUMICE_TRY(const std::u32string value, literal());
    if (in_.sees("i") &&
        !(in_.rest().size() > 1 && lark_name.find(in_.rest()[1]) != std::string_view::npos)) {
      in_.take("i");
      std::vector<Part> all;
      for (const char32_t each : value) all.push_back(grammar_.one_of(in_any_case(each)));
      return grammar_.sequence(std::move(all));
    }
    const size_t end = in_.position();
    space(false);
    if (!in_.take("..")) {
      in_.go_to(end);
      std::string bytes;
      for (const char32_t each : value) text::append_code_point(bytes, each);
      return grammar_.text(std::move(bytes));
    }
    space(false);
    if (!in_.sees("\"")) return in_.wrong("a character in quotes is expected after ..");
    PUMICE_TRY(const std::u32string last, literal());
    if (value.size() != 1 || last.size() != 1)
      return in_.wrong("a range goes from a character to a character");
    if (last[0] < value[0]) return in_.wrong("a range ends before it begins");
    return grammar_.one_of(united({{value[0], last[0]}}));
  }

  static Characters in_any_case(char32_t value) {
    const auto point = static_cast<utf8proc_int32_t>(value);
    const auto low = static_cast<char32_t>(utf8proc_tolower(point)),
               high = static_cast<char32_t>(utf8proc_toupper(point));
    return united({{value, value}, {low, low}, {high, high}});
  }

  Result<std::u32string> literal() {
    in_.take("\"");
    std::u32string all;
    while (!in_.take("\"")) {
      if (in_.at_end() || in_.sees_one_of("\r\n")) return in_.wrong("a \" has no end");
      PUMICE_TRY(const char32_t value, character());
      all += value;
    }
    return all;
  }

  Result<char32_t> character() {
    return in_.take("\\") ? in_.escaped("nrtbfv\\\"'/", "\n\r\t\b\f\v\\\"'/") : in_.character();
  }

  // Up to the / that no backslash stands before.
  Result<Part> regex() {
    const size_t begin = in_.position();
    std::string source;
    while (!in_.take("/")) {
      if (in_.at_end() || in_.sees_one_of("\r\n")) return in_.wrong("a / has no end");
      if (in_.take("\\") && !in_.sees("/")) source += '\\';
      if (!in_.at_end()) text::append_code_point(source, in_.character());
    }
    if (in_.sees_one_of("imsluxU"))
      return in_.error(Code::unsupported, "flags of regular expressions are not supported");
    const Spelling itself = [](Grammar& to, const Characters& characters) { return to.one_of(characters); };
    return add_regex(grammar_, source,
                     fmt::format("the regular expression of the grammar, at byte {}", begin), Match::whole,
                     itself);
  }

  Grammar grammar_;
  SourceReader in_;
  std::map<std::string, uint32_t> names_;
  std::string prefix_; // of the names that are defined
  bool ignores_ = false, imports_ = false;
  bool in_terminal_ = false;
  uint32_t ignored_ = 0; // the rule of what may be anywhere
  std::vector<Part> to_ignore_;
};

} // namespace

bool is_lark(std::string_view source) {
  for (size_t at = 0;;) {
    at = source.find_first_not_of(" \t\r\n", at);
    if (at == std::string_view::npos) return false;
    if (source[at] != '#' && !source.substr(at).starts_with("//")) {
      if (source[at] == '%' || source[at] == '?' || source[at] == '!') return true;
      const size_t end = source.find_first_of(":\n", at);
      return end != std::string_view::npos && source[end] == ':' && !source.substr(end).starts_with("::=");
    }
    at = source.find('\n', at);
    if (at == std::string_view::npos) return false;
  }
}

Result<Grammar> parse_lark(std::string_view source) {
  if (source.size() > most_source_bytes) return Error{Code::unsupported, "the grammar has more than a MiB"};
  if (!text::is_valid_utf8(source)) return Error{Code::invalid_argument, "the grammar is not valid UTF-8"};
  return LarkParser(source).parse();
}

} // namespace pumice::form
