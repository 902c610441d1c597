#include "models/vision_language/gguf_pair.h"

#include <algorithm>

#include <fmt/format.h>

#include "models/settings.h"

namespace pumice {

namespace {

constexpr const char* gguf_tokens_key = "tokenizer.ggml.tokens";

std::vector<std::string_view> gguf_vocabulary(const ModelFile& text) {
  const GgufArray* tokens = text.array(gguf_tokens_key);
  return tokens ? tokens->strings() : std::vector<std::string_view>();
}

} // namespace

Status check_pair(const ModelFile& text, std::string_view architecture, uint32_t columns,
                  std::string_view field) {
  const ModelFile& mmproj = *text.mmproj();
  if (text.architecture() != architecture) {
    Error error = text.fields().error("general.architecture",
                                      fmt::format("expected '{}', whose pictures {} reads; found '{}'",
                                                  architecture, mmproj.path(), text.architecture()));
    error.code = Code::unsupported;
    return error;
  }
  PUMICE_TRY(const uint32_t own, Settings(text).u32({"hidden_size", "embedding_length"}, 1, limits::columns));
  if (own == columns) return {};
  return mmproj.fields().error(
      field, fmt::format("expected the {} columns of {}; found {}", own, text.path(), columns));
}

Result<uint32_t> vocabulary_token(const ModelFile& text, std::string_view spelling) {
  const std::vector<std::string_view> tokens = gguf_vocabulary(text);
  const auto found = std::ranges::find(tokens, spelling);
  if (found != tokens.end()) return static_cast<uint32_t>(found - tokens.begin());
  return Error{
      Code::not_found,
      text.fields()
          .error(gguf_tokens_key, fmt::format("expected the token '{}', with which {} shows a picture; "
                                              "found none of that name",
                                              spelling, text.mmproj()->path()))
          .message};
}

Result<VocabularyToken> picture_vocabulary_token(const ModelFile& text, std::string_view spelling) {
  const Result<uint32_t> token = vocabulary_token(text, spelling);
  if (token.ok()) return VocabularyToken{*token, std::string(spelling)};
  const std::vector<std::string_view> tokens = gguf_vocabulary(text);
  for (const char* key : {"tokenizer.ggml.unknown_token_id", "tokenizer.ggml.padding_token_id"}) {
    if (tokens.empty() || !text.fields().has(key)) continue;
    PUMICE_TRY(const uint32_t other, text.fields().u32(key, 0, static_cast<uint32_t>(tokens.size() - 1)));
    return VocabularyToken{other, std::string(tokens[other])};
  }
  return token.error();
}

} // namespace pumice
