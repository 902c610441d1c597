#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "generate/terms.h"
#include "text/tokenizer.h"

namespace pumice {

// A term, a tab and its translation on each line. Blank lines are left out.
struct GlossaryText {
  std::string text;
  std::string name; // in errors
};

// Fixed terms of translations: which words a text has to contain if its source has certain others.
class Glossary {
public:
  // An error names the line and the field. Translations that `tokenizer` cannot write are an error, too.
  static Result<Glossary> read(const GlossaryText& text, const Tokenizer& tokenizer, uint32_t vocabulary);

  // The translations of the terms that a text contains as whole words, in the case of the file: each once,
  // the longest at each place.
  std::vector<Term> terms_in(std::string_view text) const;

private:
  struct Entry {
    std::string source;
    Term target;
    size_t line = 0;
  };

  Status add(std::string_view line, size_t number, const std::string& name, const Tokenizer& tokenizer,
             uint32_t vocabulary);

  std::vector<Entry> entries_; // the longest source first
};

} // namespace pumice
