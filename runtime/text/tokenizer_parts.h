#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/added_tokens.h"
#include "text/detokenizer.h"
#include "text/lazy_model.h"
#include "text/model.h"
#include "text/post_processor.h"
#include "text/tokenizer.h"
#include "text/unicode/normalizer.h"
#include "text/unicode/pre_tokenizer.h"
#include "text/vocabulary.h"

namespace pumice {

// The steps and tables of a tokenizer. It cannot be moved, because the model refers to the vocabulary.
struct TokenizerParts {
  text::Vocabulary vocabulary;
  text::AddedTokens added_tokens;
  text::NormalizerPtr normalizer;      // may be null
  text::PreTokenizerPtr pre_tokenizer; // may be null
  text::ModelPtr model;
  // Of the language that is translated into, where it has its own; may be null. Only encode_within() asks.
  std::unique_ptr<const text::LazyModel> target_model;
  text::PostProcessor post_processor;
  std::vector<text::DecoderPtr> decoders;
  std::optional<uint32_t> bos, eos;

  TokenizerParts() = default;
  TokenizerParts(const TokenizerParts&) = delete;
  TokenizerParts& operator=(const TokenizerParts&) = delete;
};

namespace text {

// The limit of how many times longer a sequence of normalizers, pre-tokenizers or decoders may make a text.
// Known tokenizers reach 40.
inline constexpr double kMaxGrowth = 4096;

} // namespace text
} // namespace pumice
