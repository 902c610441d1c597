#pragma once

#include <cstdint>
#include <deque>
#include <limits>
#include <string>
#include <vector>

#include "base/result.h"
#include "form/characters.h"

namespace pumice::form {

// Most groups inside each other, of a regular expression, a grammar or a schema.
inline constexpr uint32_t most_nested = 200;
// Most bytes of a regular expression, a grammar or a schema.
inline constexpr size_t most_source_bytes = 1 << 20;

// Most parts within each other: they are walked by functions that call themselves.
inline constexpr uint32_t most_part_depth = 1'500;

inline constexpr uint32_t unlimited = std::numeric_limits<uint32_t>::max();

using Part = uint32_t; // in Grammar::parts

// What a text may be: the form that choices, regular expressions, JSON schemas and grammars become. Parts
// refer to parts that were made before them, and to rules, which may refer to each other.
struct Grammar {
  enum class Kind : uint8_t {
    never,      // no text at all
    text,       // these bytes, valid UTF-8
    characters, // one of them
    sequence,   // of `parts`
    choice,     // one of `parts`
    repeat,     // parts[0], `least` to `most` times
    list,       // `parts` in this order with parts[0] between them; what is a repeat may be there so often
    rule,       // what `rule` says
  };
  struct Node {
    Kind kind = Kind::never;
    std::string text = {};
    Characters characters = {};
    std::vector<Part> parts = {};
    uint32_t least = 0, most = 0;
    uint32_t rule = 0;
    uint32_t depth = 0; // of parts within it
  };
  // A text fits a rule if it fits all of these, and none of those that are negated. More than one: no part
  // of them is a rule.
  struct Term {
    Part part = 0;
    bool negated = false;
    bool begins = false; // negated: what begins with such a text does not fit either
  };
  struct Rule {
    std::string name; // for errors
    std::vector<Term> terms = {};
    bool separate = false; // has states of its own, also where it is small: other forms have it too
  };

  std::deque<Node> parts;
  std::vector<Rule> rules;
  uint32_t root = 0;
  bool too_deep = false; // a part is deeper than most_part_depth

  Part never() { return add({}); }
  Part text(std::string bytes) { return add({.kind = Kind::text, .text = std::move(bytes)}); }
  Part one_of(Characters characters);
  Part sequence(std::vector<Part> all);
  Part choice(std::vector<Part> all);
  Part repeat(Part part, uint32_t least, uint32_t most);
  Part optional(Part part) { return repeat(part, 0, 1); }
  Part list(Part separator, std::vector<Part> all);
  Part call(uint32_t rule) { return add({.kind = Kind::rule, .rule = rule}); }
  uint32_t add_rule(std::string name, Part part, bool separate = false);
  uint32_t add_rule(std::string name, std::vector<Term> terms, bool separate = false);

private:
  Part add(Node node);
};

// The forms that a text is given in. Errors name what is wrong and where.
Result<Grammar> parse_choices(const std::vector<std::string>& choices);
Result<Grammar> parse_regex(std::string_view regex);
Result<Grammar> parse_gbnf(std::string_view grammar);
Result<Grammar> parse_lark(std::string_view grammar);
// Whether a grammar is written in Lark, and not in GBNF.
bool is_lark(std::string_view grammar);
Result<Grammar> parse_json_schema(std::string_view schema);

} // namespace pumice::form
