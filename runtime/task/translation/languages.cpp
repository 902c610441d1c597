#include "task/translation/languages.h"

#include <charconv>

#include <fmt/format.h>

namespace pumice {

namespace {

// A token by its spelling or its id, in models whose languages are not known here.
std::optional<uint32_t> token_of(const Tokenizer& tokenizer, const std::string& name, uint32_t vocabulary) {
  if (const std::optional<uint32_t> id = tokenizer.find(name)) return id;
  uint32_t id = 0;
  const char* end = name.data() + name.size();
  const auto [rest, error] = std::from_chars(name.data(), end, id);
  if (error == std::errc() && rest == end && id < vocabulary) return id;
  return std::nullopt;
}

Result<uint32_t> find(const char* option, const std::string& name, const LanguageTokens& languages,
                      const Tokenizer& tokenizer, uint32_t vocabulary) {
  const Result<uint32_t> language = languages.find(name);
  if (language.ok()) return *language;
  if (const std::optional<uint32_t> id = token_of(tokenizer, name, vocabulary)) return *id;
  return Error{Code::not_found, fmt::format("{}: {}; a token's id from 0 to {} works too", option,
                                            language.error().message, vocabulary - 1)};
}

} // namespace

Result<TranslationLanguages>
TranslationLanguages::choose(const std::string& source, const std::string& target, const Tokenizer& tokenizer,
                             uint32_t vocabulary, GenerationConfig& config, const OptionNames& names) {
  TranslationLanguages chosen(tokenizer);
  const LanguageTokens& known = chosen.tokens_;
  // mBART's decoder begins with its language, others with a token that is followed by it.
  const bool prompt_is_language = !config.prompt.empty() && known.is_language(config.prompt.back());
  if (!target.empty()) {
    PUMICE_TRY(const uint32_t to, find(names.target_language, target, known, tokenizer, vocabulary));
    if (known.in_source() && known.is_language(to)) {
      chosen.mark_ = to;
    } else if (prompt_is_language && known.is_language(to)) {
      config.prompt.back() = to;
    } else {
      config.forced_first = to;
    }
  } else if (!known.languages().empty() && !known.in_source() && !prompt_is_language &&
             !config.forced_first) {
    return Error{Code::invalid_argument,
                 fmt::format("the model translates into {} languages: name one with {}, such as {}",
                             known.languages().size(), names.target_language,
                             known.languages().front().code)};
  }
  if (source.empty()) return chosen;
  if (known.languages().empty() || known.in_source()) {
    return Error{Code::invalid_argument,
                 fmt::format("{0} {1}: the model does not tell languages of its texts apart: leave {0} out",
                             names.source_language, source)};
  }
  PUMICE_TRY(chosen.mark_, find(names.source_language, source, known, tokenizer, vocabulary));
  return chosen;
}

void TranslationLanguages::mark(std::vector<uint32_t>& tokens, size_t room) const {
  if (mark_) tokens_.set_source(tokens, *mark_, room);
}

} // namespace pumice
