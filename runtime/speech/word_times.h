#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "generate/forced_pass.h"
#include "text/tokenizer.h"

namespace pumice {

// When each word of a transcript was spoken, from where the decoder looked: some heads of its attention to
// the encoder follow the sound (Radford et al. 2022, timing.py of the code that was published with it).

// A head of the decoder's cross-attention.
struct AlignmentHead {
  uint32_t layer = 0, head = 0;
};

// Those that a model's generation_config.json names as "alignment_heads", or where there is no such file its
// config.json; none where it does not.
Result<std::vector<AlignmentHead>> read_alignment_heads(const ModelFile& file);

// The median of each value and its neighbours, `width` (odd) in all; the row is reflected at its ends.
std::vector<float> median_filter(std::span<const float> row, uint32_t width);

// How well each token fits each position, [tokens, positions]: the mean over heads of their weights, each
// made of mean 0 and variance 1 over the tokens and smoothed over 7 positions. `heads`: of each head, weights
// [tokens, positions].
std::vector<float> alignment_scores(std::span<const std::vector<float>> heads, size_t tokens);

// Dynamic time warping: the path from the first token and position to the last ones that goes on by one
// token, one position or both and has the greatest sum of scores [tokens, positions]. Returns for each token
// the position where the path reaches it.
std::vector<uint32_t> warp(std::span<const float> scores, size_t tokens);

// Tokens that make up a word, with the space before it and the marks around it.
struct WordTokens {
  std::string text;
  size_t tokens = 0;
};
// `spaced`: words are separated by spaces, as in most languages; else each whole character is one.
std::vector<WordTokens> words_of(const Tokenizer& tokenizer, std::span<const uint32_t> tokens, bool spaced);
bool separates_words(std::string_view language); // by spaces

struct TimedWord {
  std::string text;
  double start = 0, end = 0; // seconds
  float probability = 0;     // the mean of its tokens'
  size_t tokens = 0;         // that it is made of
};

// What a window's words are timed from.
struct SpokenText {
  std::span<const float> features;
  std::vector<uint32_t> prefix; // the start token, language and task, and that there are no timestamps
  std::vector<uint32_t> tokens; // of text, without timestamps
  uint32_t end = 0;             // the token that ends a transcript
  uint32_t positions = 0;       // of the encoder, as far as there is sound
  double position_seconds = 0.02;
  bool spaced = true;
};

// Runs a model over texts once more, to see where it looked. Used by one thread at a time.
class WordTimer {
public:
  // Without heads, all in the upper half of the layers are taken. With `making.all`, all kernels are compiled
  // now, and not when they first run.
  static Result<std::unique_ptr<WordTimer>> create(std::shared_ptr<const Model> model,
                                                   std::shared_ptr<const Tokenizer> tokenizer,
                                                   std::vector<AlignmentHead> heads,
                                                   const Making& making = {});

  // The words in order, whose times count from the window's beginning.
  Result<std::vector<TimedWord>> words(const SpokenText& text);

private:
  WordTimer() = default;
  Result<std::vector<std::vector<float>>> weights(const SpokenText& text, size_t tokens) const;

  std::shared_ptr<const Model> model_;
  std::shared_ptr<const Tokenizer> tokenizer_;
  std::vector<AlignmentHead> heads_;
  std::unique_ptr<ForcedPass> pass_;
};

} // namespace pumice
