#include <algorithm>
#include <map>

#include "form/grammar.h"
#include "form/source_reader.h"
#include "io/bytes.h"

namespace pumice::form {

namespace {

// Most rules of a grammar.
constexpr size_t most_rules = 5'000;

constexpr std::string_view name_characters =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-";

class GbnfParser {
public:
  explicit GbnfParser(std::string_view source) : in_(source, "the grammar") {}

  Result<Grammar> parse() {
    space(true);
    while (!in_.at_end()) PUMICE_CHECK(rule());
    for (const auto& [name, rule] : names_) {
      if (grammar_.rules[rule].terms.empty())
        return Error{
            Code::invalid_argument,
            fmt::format("the grammar uses the rule {}, and does not say what it is", printable(name))};
    }
    const auto root = names_.find("root");
    if (root == names_.end())
      return Error{Code::invalid_argument, "the grammar has no rule with the name root"};
    grammar_.root = root->second;
    return std::move(grammar_);
  }

private:
  void space(bool over_lines) { in_.space(over_lines, {"#"}); }

  Result<uint32_t> name() {
    const size_t length = std::min(in_.rest().find_first_not_of(name_characters), in_.rest().size());
    if (length == 0) return in_.wrong("the name of a rule is expected");
    const std::string found(in_.rest().substr(0, length));
    in_.go_to(in_.position() + length);
    const auto [at, added] = names_.try_emplace(found, static_cast<uint32_t>(grammar_.rules.size()));
    if (added) grammar_.add_rule("the rule " + printable(found), std::vector<Grammar::Term>());
    if (grammar_.rules.size() > most_rules)
      return in_.error(Code::unsupported, fmt::format("there are more than {} rules", most_rules));
    return at->second;
  }

  Status rule() {
    PUMICE_TRY(const uint32_t rule, name());
    space(false);
    if (!in_.take("::=")) return in_.wrong("::= is expected after the name of a rule");
    space(true);
    PUMICE_TRY(const Part part, alternatives(0));
    grammar_.rules[rule].terms = {{part, false}};
    if (!in_.at_end() && !in_.sees_one_of("\r\n")) return in_.wrong("the end of the line is expected");
    space(true);
    return {};
  }

  Result<Part> alternatives(uint32_t depth) {
    if (depth > most_nested)
      return in_.error(Code::unsupported, fmt::format("more than {} groups lie in each other", most_nested));
    std::vector<Part> all;
    for (;;) {
      PUMICE_TRY(const Part each, sequence(depth));
      all.push_back(each);
      if (!in_.take("|")) return grammar_.choice(std::move(all));
      space(true);
    }
  }

  Result<Part> sequence(uint32_t depth) {
    std::vector<Part> all;
    for (;;) {
      Part part = 0;
      if (in_.take("\"")) {
        PUMICE_TRY(part, literal());
      } else if (in_.take("[")) {
        PUMICE_TRY(part, set());
      } else if (in_.take(".")) {
        part = grammar_.one_of(any_character());
      } else if (in_.take("(")) {
        space(true);
        PUMICE_TRY(part, alternatives(depth + 1));
        if (!in_.take(")")) return in_.wrong("a ) is expected");
      } else if (in_.sees_one_of(name_characters)) {
        PUMICE_TRY(const uint32_t rule, name());
        part = grammar_.call(rule);
      } else if (in_.sees_one_of("<!")) {
        return in_.error(Code::unsupported,
                         "tokens in a grammar (<...>) are not supported: write their text");
      } else if (in_.sees_one_of("*+?{")) {
        return in_.wrong("there is nothing that could be repeated");
      } else {
        return grammar_.sequence(std::move(all));
      }
      space(depth > 0);
      PUMICE_CHECK(repetitions(part, depth));
      all.push_back(part);
    }
  }

  Status repetitions(Part& part, uint32_t depth) {
    for (uint32_t count = 0;; ++count, space(depth > 0)) {
      if (count > most_nested) return in_.error(Code::unsupported, "too many repetitions follow each other");
      uint32_t least = 0, most = unlimited;
      if (in_.take("*")) {
      } else if (in_.take("+")) {
        least = 1;
      } else if (in_.take("?")) {
        most = 1;
      } else if (in_.take("{")) {
        space(depth > 0);
        const std::optional<uint32_t> low = in_.number();
        if (!low) return in_.wrong("a number is expected after {");
        least = most = *low;
        space(depth > 0);
        if (in_.take(",")) {
          space(depth > 0);
          most = in_.number().value_or(unlimited);
          space(depth > 0);
        }
        if (!in_.take("}")) return in_.wrong("a } is expected");
        if (most < least) return in_.wrong("a repetition has a largest number below its smallest one");
      } else {
        return {};
      }
      part = grammar_.repeat(part, least, most);
    }
  }

  Result<char32_t> character() {
    return in_.take("\\") ? in_.escaped("trn\\\"[]", "\t\r\n\\\"[]") : in_.character();
  }

  Result<Part> literal() {
    std::string bytes;
    while (!in_.take("\"")) {
      if (in_.at_end()) return in_.wrong("a \" has no end");
      PUMICE_TRY(const char32_t value, character());
      text::append_code_point(bytes, value);
    }
    return grammar_.text(std::move(bytes));
  }

  Result<Part> set() {
    const bool negated = in_.take("^");
    std::vector<CharacterRange> ranges;
    while (!in_.take("]")) {
      if (in_.at_end()) return in_.wrong("a [ has no ]");
      PUMICE_TRY(const char32_t first, character());
      char32_t last = first;
      if (in_.sees("-") && !in_.sees("-]")) {
        in_.take("-");
        if (in_.at_end()) return in_.wrong("a [ has no ]");
        PUMICE_TRY(last, character());
      }
      if (last < first) return in_.wrong("a range ends before it begins");
      ranges.push_back({first, last});
    }
    const Characters all = united(std::move(ranges));
    return grammar_.one_of(negated ? all_but(all) : all);
  }

  Grammar grammar_;
  SourceReader in_;
  std::map<std::string, uint32_t> names_;
};

} // namespace

Result<Grammar> parse_gbnf(std::string_view source) {
  if (source.size() > most_source_bytes) return Error{Code::unsupported, "the grammar has more than a MiB"};
  if (!text::is_valid_utf8(source)) return Error{Code::invalid_argument, "the grammar is not valid UTF-8"};
  return GbnfParser(source).parse();
}

} // namespace pumice::form
