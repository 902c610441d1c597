#include "form/regex.h"

#include <algorithm>
#include <map>

#include <utf8proc.h>

#include "form/source_reader.h"

namespace pumice::form {

namespace {

const Characters& digits() {
  static const Characters all{{'0', '9'}};
  return all;
}
const Characters& word_characters() {
  static const Characters all{{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}};
  return all;
}
const Characters& white_space() {
  static const Characters all{{'\t', '\r'},     {' ', ' '},       {0xA0, 0xA0},     {0x1680, 0x1680},
                              {0x2000, 0x200A}, {0x2028, 0x2029}, {0x202F, 0x202F}, {0x205F, 0x205F},
                              {0x3000, 0x3000}, {0xFEFF, 0xFEFF}};
  return all;
}
const Characters& line_ends() {
  static const Characters all{{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}};
  return all;
}

// The characters of each general category ("Lu"). Made once: a pattern may name many.
const std::map<std::string_view, Characters>& categories() {
  static const std::map<std::string_view, Characters> all = [] {
    std::map<std::string_view, Characters> found;
    for (char32_t value = 0; value <= last_character; ++value) {
      Characters& ranges = found[utf8proc_category_string(static_cast<utf8proc_int32_t>(value))];
      if (!ranges.empty() && ranges.back().last + 1 == value) {
        ranges.back().last = value;
      } else {
        ranges.push_back({value, value});
      }
    }
    return found;
  }();
  return all;
}

// Those of all categories that begin like this ("L").
Characters category(std::string_view name) {
  std::vector<CharacterRange> ranges;
  for (const auto& [known, characters] : categories()) {
    if (known.starts_with(name)) ranges.insert(ranges.end(), characters.begin(), characters.end());
  }
  return united(std::move(ranges));
}

class RegexParser {
public:
  RegexParser(Grammar& grammar, std::string_view regex, std::string what, Match match,
              const Spelling& spelling)
      : grammar_(grammar), in_(regex, std::move(what)), match_(match), spelling_(spelling) {}

  Result<Part> parse() {
    std::vector<Part> all;
    do {
      PUMICE_TRY(const Part each, anchored());
      all.push_back(each);
    } while (in_.take("|"));
    if (!in_.at_end()) return in_.wrong("there is a ) without a (");
    return grammar_.choice(std::move(all));
  }

private:
  // An alternative of the whole, which ^ and $ may begin and end.
  Result<Part> anchored() {
    const bool begins = in_.take("^");
    PUMICE_TRY(Part part, sequence(0));
    const bool ends = in_.take("$");
    if (ends && !in_.at_end() && !in_.sees("|")) return in_.error(Code::unsupported, "something follows a $");
    if (match_ == Match::whole) return part;
    const auto any = [&] { return grammar_.repeat(spelling_(grammar_, any_character()), 0, unlimited); };
    std::vector<Part> all;
    if (!begins) all.push_back(any());
    all.push_back(part);
    if (!ends) all.push_back(any());
    return grammar_.sequence(std::move(all));
  }

  Result<Part> alternatives(uint32_t depth) {
    if (depth > most_nested)
      return in_.error(Code::unsupported, fmt::format("more than {} groups lie in each other", most_nested));
    std::vector<Part> all;
    do {
      PUMICE_TRY(const Part each, sequence(depth));
      all.push_back(each);
    } while (in_.take("|"));
    return grammar_.choice(std::move(all));
  }

  Result<Part> sequence(uint32_t depth) {
    std::vector<Part> all;
    while (!in_.at_end() && !in_.sees_one_of("|)$")) {
      PUMICE_TRY(const Part each, atom(depth));
      PUMICE_TRY(const Part repeated, quantified(each));
      all.push_back(repeated);
    }
    if (in_.sees("$") && depth > 0) return in_.error(Code::unsupported, "$ within a group is not supported");
    return grammar_.sequence(std::move(all));
  }

  Result<Part> quantified(Part part) {
    for (bool more = true, first = true; more; first = false) {
      uint32_t least = 0, most = unlimited;
      if (in_.take("*")) {
      } else if (in_.take("+")) {
        least = 1;
      } else if (in_.take("?")) {
        if (!first) continue; // of a lazy one, which matches the same texts
        most = 1;
      } else if (!counted(least, most)) {
        break;
      }
      if (!first) return in_.wrong("a repetition follows a repetition");
      if (most < least) return in_.wrong("a repetition has a largest number below its smallest one");
      part = grammar_.repeat(part, least, most);
    }
    return part;
  }

  // {2}, {2,} or {2,5}; anything else is text.
  bool counted(uint32_t& least, uint32_t& most) {
    const size_t begin = in_.position();
    if (in_.take("{")) {
      if (const std::optional<uint32_t> low = in_.number()) {
        least = most = *low;
        if (in_.take(",")) most = in_.number().value_or(unlimited);
        if (in_.take("}")) return true;
      }
    }
    in_.go_to(begin);
    return false;
  }

  Result<Part> atom(uint32_t depth) {
    if (in_.take("(")) return group(depth);
    if (in_.take("[")) {
      PUMICE_TRY(const Characters characters, set());
      return spelling_(grammar_, characters);
    }
    if (in_.sees_one_of("*+?")) return in_.wrong("there is nothing that could be repeated");
    if (in_.sees("^")) return in_.error(Code::unsupported, "^ is only supported at the beginning");
    if (in_.take(".")) return spelling_(grammar_, all_but(line_ends()));
    if (in_.take("\\")) {
      if (in_.sees_one_of("bB")) return in_.error(Code::unsupported, "word boundaries are not supported");
      if (in_.sees_one_of("123456789k"))
        return in_.error(Code::unsupported, "backreferences are not supported");
      PUMICE_TRY(const Characters characters, escape());
      return spelling_(grammar_, characters);
    }
    const char32_t character = in_.character();
    return spelling_(grammar_, {{character, character}});
  }

  Result<Part> group(uint32_t depth) {
    if (in_.take("?")) {
      if (in_.take("<")) {
        if (in_.sees_one_of("=!")) return in_.error(Code::unsupported, "look-behind is not supported");
        while (!in_.at_end() && !in_.sees(">")) in_.character();
        if (!in_.take(">")) return in_.wrong("the name of a group has no end");
      } else if (in_.sees_one_of("=!")) {
        return in_.error(Code::unsupported, "look-ahead is not supported");
      } else if (!in_.take(":")) {
        return in_.error(Code::unsupported, "flags of a group are not supported");
      }
    }
    PUMICE_TRY(const Part part, alternatives(depth + 1));
    if (!in_.take(")")) return in_.wrong("a ( has no )");
    return part;
  }

  // What follows a backslash, in a set or not.
  Result<Characters> escape() {
    if (in_.at_end()) return in_.wrong("a backslash is the last character");
    const auto single = [](char32_t value) { return Characters{{value, value}}; };
    if (in_.take("d")) return digits();
    if (in_.take("D")) return all_but(digits());
    if (in_.take("w")) return word_characters();
    if (in_.take("W")) return all_but(word_characters());
    if (in_.take("s")) return white_space();
    if (in_.take("S")) return all_but(white_space());
    if (in_.take("n")) return single('\n');
    if (in_.take("r")) return single('\r');
    if (in_.take("t")) return single('\t');
    if (in_.take("f")) return single('\f');
    if (in_.take("v")) return single('\v');
    if (in_.take("0")) return single(0);
    if (in_.take("c")) {
      if (in_.at_end()) return in_.wrong("\\c has no letter");
      return single(in_.character() % 32);
    }
    if (in_.take("x")) {
      const std::optional<char32_t> value = in_.hexadecimal(2);
      return value ? Result<Characters>(single(*value)) : in_.wrong("\\x needs two hexadecimal digits");
    }
    if (in_.take("u")) return unicode();
    if (in_.sees_one_of("pP")) return property();
    return single(in_.character());
  }

  Result<Characters> unicode() {
    std::optional<char32_t> value;
    if (in_.take("{")) {
      for (size_t digits = 6; digits > 0 && !value; --digits) value = in_.hexadecimal(digits);
      if (!in_.take("}")) value.reset();
    } else {
      value = in_.hexadecimal(4);
      if (value && *value >= 0xD800 && *value < 0xDC00 && in_.take("\\u")) {
        const std::optional<char32_t> low = in_.hexadecimal(4);
        if (!low || *low < 0xDC00 || *low > 0xDFFF) return in_.wrong("half of a surrogate pair is missing");
        value = 0x10000 + ((*value - 0xD800) << 10) + (*low - 0xDC00);
      }
    }
    if (!value || *value > last_character) return in_.wrong("\\u needs four hexadecimal digits, or {...}");
    if (*value >= 0xD800 && *value < 0xE000) return in_.wrong("half of a surrogate pair is no character");
    return Characters{{*value, *value}};
  }

  Result<Characters> property() {
    const bool negated = in_.take("P");
    if (!negated) in_.take("p");
    std::string_view name;
    if (in_.take("{")) {
      name = in_.rest().substr(0, in_.rest().find('}'));
      in_.go_to(in_.position() + name.size());
      if (!in_.take("}")) return in_.wrong("\\p has no }");
    }
    constexpr std::string_view names[] = {"Letter", "L",      "Number", "N",    "Punctuation",
                                          "P",      "Symbol", "S",      "Mark", "M"};
    for (size_t i = 0; i < std::size(names); i += 2) {
      if (name == names[i]) name = names[i + 1];
    }
    Characters found;
    if (name.size() == 1 || name.size() == 2) found = category(name);
    if (found.empty())
      return in_.error(Code::unsupported, "only general categories such as \\p{L} and \\p{Lu} are supported");
    return negated ? all_but(found) : found;
  }

  Result<Characters> set() {
    const bool negated = in_.take("^");
    std::vector<CharacterRange> ranges;
    while (!in_.take("]")) {
      PUMICE_TRY(const Characters first, set_member());
      const bool single = first.size() == 1 && first[0].first == first[0].last;
      if (single && in_.sees("-") && !in_.sees("-]")) {
        in_.take("-");
        PUMICE_TRY(const Characters last, set_member());
        if (last.size() == 1 && last[0].first == last[0].last) {
          if (last[0].first < first[0].first) return in_.wrong("a range ends before it begins");
          ranges.push_back({first[0].first, last[0].first});
          continue;
        }
        ranges.push_back({'-', '-'});
        ranges.insert(ranges.end(), last.begin(), last.end());
      }
      ranges.insert(ranges.end(), first.begin(), first.end());
    }
    const Characters all = united(std::move(ranges));
    return negated ? all_but(all) : all;
  }

  Result<Characters> set_member() {
    if (in_.at_end()) return in_.wrong("a [ has no ]");
    if (in_.take("\\b")) return Characters{{'\b', '\b'}};
    if (in_.take("\\")) return escape();
    const char32_t character = in_.character();
    return Characters{{character, character}};
  }

  Grammar& grammar_;
  SourceReader in_;
  Match match_;
  const Spelling& spelling_;
};

} // namespace

Result<Part> add_regex(Grammar& grammar, std::string_view regex, std::string what, Match match,
                       const Spelling& spelling) {
  if (regex.size() > most_source_bytes) return Error{Code::unsupported, what + " has more than a MiB"};
  if (!text::is_valid_utf8(regex)) return Error{Code::invalid_argument, what + " is not valid UTF-8"};
  return RegexParser(grammar, regex, std::move(what), match, spelling).parse();
}

Result<Grammar> parse_regex(std::string_view regex) {
  Grammar grammar;
  const Spelling itself = [](Grammar& to, const Characters& characters) { return to.one_of(characters); };
  PUMICE_TRY(const Part part, add_regex(grammar, regex, "the regular expression", Match::whole, itself));
  grammar.root = grammar.add_rule("the regular expression", part);
  return grammar;
}

} // namespace pumice::form
