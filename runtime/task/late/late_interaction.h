#pragma once

#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "step/encoder.h"
#include "task/sentence_settings.h"
#include "text/tokenizer.h"

namespace pumice {

// How a model compares a query with a text token by token (ColBERT, Khattab and Zaharia 2020): each token has
// a vector of length 1, and the score is the sum, over the query's tokens, of the largest product with a
// vector of the text.
class LateInteraction {
public:
  // From the files of PyLate, or of ColBERT's own code, beside the weights; nothing if there are none. Errors
  // name the file and the field.
  static Result<std::optional<LateInteraction>>
  read(const ModelFile& file, std::shared_ptr<const Tokenizer> tokenizer, uint32_t context);

  uint32_t text_tokens() const { return text_tokens_; }               // most of a text
  uint32_t columns() const { return settings_.dense.back().outputs; } // of a vector

  // A query, filled up with masks, which are compared too, though other tokens do not see them.
  EncoderInput query(const std::string& text) const;
  // A text with the tokens around it, at most `limit`.
  Tokenizer::Encoding text(const std::string& text, size_t limit) const;

  // The vectors of tokens, one after the other, of their rows [tokens, hidden].
  std::vector<float> vectors(std::span<const float> rows) const;
  // Those of a text's tokens that are compared: punctuation is not.
  std::vector<float> vectors(const std::string& text, size_t limit, std::span<const float> rows) const;
  float score(std::span<const float> query, std::span<const float> text) const;

private:
  LateInteraction() = default;
  static Result<std::optional<LateInteraction>> read_pylate(const ModelFile& file,
                                                            const SentenceSettings& settings,
                                                            std::shared_ptr<const Tokenizer> tokenizer);
  static Result<std::optional<LateInteraction>> read_colbert(const ModelFile& file,
                                                             std::shared_ptr<const Tokenizer> tokenizer);
  // The tokens of a text with the mark behind the first of them.
  Tokenizer::Encoding marked(const std::string& text, uint32_t mark, size_t limit) const;

  std::shared_ptr<const Tokenizer> tokenizer_;
  SentenceSettings settings_;               // its dense layers
  uint32_t query_mark_ = 0, text_mark_ = 0; // tokens
  uint32_t query_tokens_ = 32, text_tokens_ = 180;
  std::optional<uint32_t> filler_; // of queries; nothing: they are not filled up
  bool sees_filler_ = false;       // all tokens do
  std::set<uint32_t> left_out_;    // of a text's tokens
};

} // namespace pumice
