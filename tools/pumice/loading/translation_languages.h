#pragma once

#include <optional>
#include <string>

#include <CLI/CLI.hpp>

#include "generate/generation_config.h"
#include "text/language_tokens.h"

namespace pumice::command {

// Which languages a model of many translates from and to; empty: as its settings say.
struct LanguageOptions {
  std::string from, to;
};
void add_language_options(CLI::App& app, LanguageOptions& options);

// The languages of a translator's texts.
class TranslationLanguages {
public:
  // Sets what the decoder begins with. An error if the model lacks a language, or needs one that is not
  // given.
  static Result<TranslationLanguages> choose(const LanguageOptions& options, const Tokenizer& tokenizer,
                                             uint32_t vocabulary, GenerationConfig& config);

  // Marks a text's tokens with its language, or with the one that it is to be translated into, where the
  // model wants that. At most `room` tokens are left.
  void mark(std::vector<uint32_t>& tokens, size_t room) const;

private:
  explicit TranslationLanguages(const Tokenizer& tokenizer) : tokens_(tokenizer) {}

  LanguageTokens tokens_;
  std::optional<uint32_t> mark_;
};

} // namespace pumice::command
