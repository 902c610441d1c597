#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace pumice::text {

struct Span {
  size_t begin = 0;
  size_t end = 0;
};

// A regular expression in the syntax of tokenizer.json (Oniguruma's Ruby syntax), matched by PCRE2.
// Constructs that tokenizers use and that differ in PCRE2 are translated: \s is White_Space, \h a hexadecimal
// digit, a set within a set adds to it. Immutable; may be shared between threads.
class Regex {
public:
  static Result<Regex> compile(std::string_view pattern);

  // All matches in the escaped UTF-8 text, from left to right, without overlaps. If the pattern backtracks
  // too long on this text, the search stops and the matches found so far are returned.
  std::vector<Span> matches(std::string_view escaped) const;

  bool can_match_empty() const { return can_match_empty_; }

private:
  struct Code;
  std::shared_ptr<const Code> code_;
  bool can_match_empty_ = false;
};

// Translates a pattern from Oniguruma's syntax to PCRE2's. `has_binary_properties`: PCRE2 knows
// \p{White_Space}.
Result<std::string> translate_pattern(std::string_view pattern, bool has_binary_properties);

} // namespace pumice::text
