#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "task/attention_reader.h"
#include "task/writing.h"

// Which words of a text the words of its translation come from.
namespace pumice {

// The number of words in a text.
uint32_t count_words(std::string_view text);

// Of each token, the word in which its first letter is; none of special tokens and of white space.
std::vector<std::optional<uint32_t>> words_of_tokens(const Tokenizer& tokenizer,
                                                     std::span<const uint32_t> ids);

// Links each word of the translation to the word of the source that its tokens attend to most.
// `attention` is [tokens of the translation, tokens of the source].
std::vector<WordLink> link_words(std::span<const float> attention,
                                 std::span<const std::optional<uint32_t>> source,
                                 std::span<const std::optional<uint32_t>> translation);

// The layer of a model that words are linked by, if none was chosen. The attention of the last one but one is
// the best for it (Garg et al. 2019, Jointly Learning to Align and Translate with Transformer Models).
uint32_t alignment_layer(const ModelShape& shape);

class Aligner {
public:
  // `layer` and `head` (default: the mean of all) choose the attention. `prompt` is the decoder's. The first
  // `prefix` words of each input are not the source's, and nothing is linked to them.
  Aligner(const std::shared_ptr<const Model>& model, std::shared_ptr<const Tokenizer> tokenizer,
          uint32_t layer, std::optional<uint32_t> head, std::vector<uint32_t> prompt, uint32_t prefix);

  Status prepare(const Making& making) { return reader_.prepare(making); }
  // `output`: the translation's tokens.
  Result<std::vector<WordLink>> align(const EncoderInput& input, std::span<const uint32_t> output);

private:
  AttentionReader reader_;
  std::shared_ptr<const Tokenizer> tokenizer_;
  std::optional<uint32_t> head_;
  std::vector<uint32_t> prompt_;
  uint32_t prefix_;
};

} // namespace pumice
