#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "text/tokenizer.h"

namespace pumice {

// The tokens that name languages, in the tokenizer of a translator of many: "__de__" (M2M-100), "de_DE"
// (mBART), "deu_Latn" (NLLB-200) or ">>deu<<" (Marian).
class LanguageTokens {
public:
  struct Language {
    std::string code; // without what the token has around it
    uint32_t id = 0;
  };

  explicit LanguageTokens(const Tokenizer& tokenizer);

  const std::vector<Language>& languages() const { return languages_; } // in the order of their ids
  bool is_language(uint32_t id) const;
  // The token of a language by its code, its name in English ("German"), or its code in one of the other
  // models. The error says what the model has.
  Result<uint32_t> find(std::string_view name) const;
  // Replaces the language at the beginning or at the end of a text's tokens, where the tokenizer has put its
  // default; a text without any gets it in front, `room` tokens at most.
  void set_source(std::vector<uint32_t>& tokens, uint32_t language, size_t room) const;
  // The same language's token precedes a text in Marian's models, which know no language of the source.
  bool in_source() const { return in_source_; }

private:
  std::vector<Language> languages_;
  bool in_source_ = false; // ">>deu<<"
};

// M2M-100's code of a language by its name in English, in any case; empty if it has none. Its codes are those
// of ISO 639-1 where there is one.
std::string_view language_code(std::string_view name);

// The codes of M2M-100 and of mBART, and of NLLB-200, in the order of their tokens' ids.
std::vector<std::string_view> m2m100_language_codes();
std::vector<std::string_view> mbart_language_codes(bool fifty);
std::vector<std::string_view> nllb_language_codes();

} // namespace pumice
