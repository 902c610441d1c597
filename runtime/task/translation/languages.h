#pragma once

#include <optional>
#include <string>

#include "generate/generation_config.h"
#include "task/option_names.h"
#include "text/language_tokens.h"

namespace pumice {

// The languages of a translator's texts.
class TranslationLanguages {
public:
  // Languages by their names in English or their codes, or any token by its spelling or id; empty: as the
  // model's settings say. Sets what the decoder begins with. An error if the model lacks a language, or needs
  // one that is not given.
  static Result<TranslationLanguages> choose(const std::string& source, const std::string& target,
                                             const Tokenizer& tokenizer, uint32_t vocabulary,
                                             GenerationConfig& config, const OptionNames& names);

  // Marks a text's tokens with its language, or with the one that it is to be translated into, where the
  // model wants that. At most `room` tokens are left.
  void mark(std::vector<uint32_t>& tokens, size_t room) const;

private:
  explicit TranslationLanguages(const Tokenizer& tokenizer) : tokens_(tokenizer) {}

  LanguageTokens tokens_;
  std::optional<uint32_t> mark_;
};

} // namespace pumice
