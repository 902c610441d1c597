#include "form/json_values.h"

#include <algorithm>
#include <utility>

namespace pumice::form {

namespace {

constexpr CharacterRange control{0, 0x1F};

// Quotes, backslashes and control characters, as strings of JSON have them.
std::string escaped(char32_t value) {
  switch (value) {
  case '"':
    return "\\\"";
  case '\\':
    return "\\\\";
  case '\b':
    return "\\b";
  case '\f':
    return "\\f";
  case '\n':
    return "\\n";
  case '\r':
    return "\\r";
  case '\t':
    return "\\t";
  default:
    return {'\\', 'u', '0', '0', static_cast<char>('0' + value / 16), "0123456789abcdef"[value % 16]};
  }
}

Characters plain() {
  return all_but(united({control, {'"', '"'}, {'\\', '\\'}}));
}

} // namespace

Part json_comma(Grammar& grammar) {
  return grammar.sequence({grammar.text(","), grammar.optional(grammar.text(" "))});
}
Part json_colon(Grammar& grammar) {
  return grammar.sequence({grammar.text(":"), grammar.optional(grammar.text(" "))});
}

Part json_spelling(Grammar& grammar, const Characters& characters) {
  std::vector<Part> all{grammar.one_of(common(characters, plain()))};
  for (const CharacterRange& range : common(characters, all_but(plain()))) {
    for (char32_t value = range.first; value <= range.last; ++value) {
      if (value <= control.last || value == '"' || value == '\\') all.push_back(grammar.text(escaped(value)));
    }
  }
  return grammar.choice(std::move(all));
}

Part json_character(Grammar& grammar) {
  const auto one = [&](std::vector<CharacterRange> ranges) {
    return grammar.one_of(united(std::move(ranges)));
  };
  const auto hexadecimal = [&] { return one({{'0', '9'}, {'A', 'F'}, {'a', 'f'}}); };
  const Part d = one({{'D', 'D'}, {'d', 'd'}});
  const Part simple =
      one({{'"', '"'}, {'\\', '\\'}, {'/', '/'}, {'b', 'b'}, {'f', 'f'}, {'n', 'n'}, {'r', 'r'}, {'t', 't'}});
  const Part not_d = one({{'0', '9'}, {'A', 'C'}, {'E', 'F'}, {'a', 'c'}, {'e', 'f'}});
  const Part two = grammar.repeat(hexadecimal(), 2, 2), three = grammar.repeat(hexadecimal(), 3, 3);
  const Part no_surrogate =
      grammar.choice({grammar.sequence({not_d, three}), grammar.sequence({d, one({{'0', '7'}}), two})});
  const Part pair = grammar.sequence({d, one({{'8', '9'}, {'A', 'B'}, {'a', 'b'}}), two, grammar.text("\\u"),
                                      d, one({{'C', 'F'}, {'c', 'f'}}), two});
  return grammar.choice(
      {grammar.one_of(plain()),
       grammar.sequence(
           {grammar.text("\\"),
            grammar.choice(
                {simple, grammar.sequence({grammar.text("u"), grammar.choice({no_surrogate, pair})})})})});
}

Part json_in_brackets(Grammar& grammar, char open, Part content, char close) {
  return grammar.sequence({grammar.text({open}), content, grammar.text({close})});
}

Part json_literal(Grammar& grammar, const nlohmann::ordered_json& value) {
  if (!value.is_structured()) return grammar.text(value.dump());
  std::vector<Part> all;
  for (const auto& [key, each] : value.items()) {
    if (!all.empty()) all.push_back(json_comma(grammar));
    if (value.is_object()) {
      all.push_back(grammar.text(nlohmann::ordered_json(key).dump()));
      all.push_back(json_colon(grammar));
    }
    all.push_back(json_literal(grammar, each));
  }
  const Part content = all.empty() ? grammar.text("") : grammar.sequence(std::move(all));
  return value.is_object() ? json_in_brackets(grammar, '{', content, '}')
                           : json_in_brackets(grammar, '[', content, ']');
}

std::optional<std::string_view> json_format(std::string_view name) {
#define DATE                                                                                                 \
  "((\\d{3}[1-9]|\\d{2}[1-9]\\d|\\d[1-9]\\d{2}|[1-9]\\d{3})-((0[13578]|1[02])-(0[1-9]|[12]\\d|3[01])|"       \
  "(0[469]|11)-(0[1-9]|[12]\\d|30)|02-(0[1-9]|1\\d|2[0-8]))|"                                                \
  "(\\d{2}(0[48]|[2468][048]|[13579][26])|(0[48]|[2468][048]|[13579][26])00)-02-29)"
#define TIME "([01]\\d|2[0-3]):[0-5]\\d:[0-5]\\d(\\.\\d{1,9})?(Z|[+-]([01]\\d|2[0-3]):[0-5]\\d)"
#define LABEL "[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
#define HOST LABEL "(\\." LABEL "){0,3}"
#define BYTE "(25[0-5]|2[0-4]\\d|1\\d{2}|[1-9]?\\d)"
#define H "[0-9A-Fa-f]{1,4}"
#define URI_CHARACTER "([A-Za-z0-9._~!$&'()*+,;=:@-]|%[0-9A-Fa-f]{2})"
  constexpr std::pair<std::string_view, std::string_view> formats[] = {
      {"date", DATE},
      {"time", TIME},
      {"date-time", DATE "T" TIME},
      {"duration", "P(\\d{1,9}W|(\\d{1,9}Y(\\d{1,9}M(\\d{1,9}D)?)?|\\d{1,9}M(\\d{1,9}D)?|\\d{1,9}D)"
                   "(T(\\d{1,9}H(\\d{1,9}M(\\d{1,9}S)?)?|\\d{1,9}M(\\d{1,9}S)?|\\d{1,9}S))?|"
                   "T(\\d{1,9}H(\\d{1,9}M(\\d{1,9}S)?)?|\\d{1,9}M(\\d{1,9}S)?|\\d{1,9}S))"},
      {"uuid", "[0-9A-Fa-f]{8}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{12}"},
      {"ipv4", BYTE "(\\." BYTE "){3}"},
      {"ipv6",
       "(" H ":){7}" H "|(" H ":){1,7}:|(" H ":){1,6}:" H "|(" H ":){1,5}(:" H "){1,2}|(" H ":){1,4}(:" H
       "){1,3}|(" H ":){1,3}(:" H "){1,4}|(" H ":){1,2}(:" H "){1,5}|" H ":(:" H "){1,6}|:(:" H "){1,7}|::"},
      {"hostname", HOST},
      {"email", "[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+(\\.[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+)*@" HOST},
      {"uri", "[A-Za-z][A-Za-z0-9+.-]*:(//([A-Za-z0-9._~-]+@)?" HOST "(:\\d{1,5})?(/" URI_CHARACTER
              "*)*|" URI_CHARACTER "+(/" URI_CHARACTER "*)*)(\\?(" URI_CHARACTER "|[/?])*)?(#(" URI_CHARACTER
              "|[/?])*)?"},
  };
#undef DATE
#undef TIME
#undef LABEL
#undef HOST
#undef BYTE
#undef H
#undef URI_CHARACTER
  for (const auto& [known, regex] : formats) {
    if (known == name) return regex;
  }
  return std::nullopt;
}

} // namespace pumice::form
