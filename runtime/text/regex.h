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

// A regular expression as tokenizer.json writes it (Oniguruma's Ruby syntax), run by PCRE2. Where the two
// differ and tokenizers care, the pattern is translated: \s is White_Space, \h a hexadecimal digit, a set
// within a set adds to it. Immutable; may be shared between threads.
class Regex {
public:
  static Result<Regex> compile(std::string_view pattern);

  // Every match in the escaped UTF-8 text, left to right, not overlapping. A pattern that backtracks without
  // end on this text is given up: the matches found until then are returned.
  std::vector<Span> matches(std::string_view escaped) const;

  bool can_match_empty() const { return can_match_empty_; }

private:
  struct Code;
  std::shared_ptr<const Code> code_;
  bool can_match_empty_ = false;
};

// Oniguruma → PCRE2, or why not.
Result<std::string> translate_pattern(std::string_view pattern, bool has_binary_properties);

} // namespace pumice::text
