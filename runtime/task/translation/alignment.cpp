#include "task/translation/alignment.h"

#include <algorithm>
#include <map>

#include "text/unicode/unicode.h"

namespace pumice {

namespace {

// Counts the words of a text as it is read.
class WordCounter {
public:
  // Whether the character belongs to a word, which is then the last one counted.
  bool add(char32_t character) {
    const bool letter = !text::is_white_space(character), whole = letter && text::is_chinese(character);
    if (letter && (whole || !in_word_)) ++words_;
    in_word_ = letter && !whole;
    return letter;
  }
  uint32_t words() const { return words_; }

private:
  bool in_word_ = false;
  uint32_t words_ = 0;
};

} // namespace

uint32_t count_words(std::string_view text) {
  WordCounter counter;
  while (!text.empty()) {
    const auto [character, length] = text::first_code_point(text);
    counter.add(character);
    text.remove_prefix(length);
  }
  return counter.words();
}

std::vector<std::optional<uint32_t>> words_of_tokens(const Tokenizer& tokenizer,
                                                     std::span<const uint32_t> ids) {
  std::vector<std::optional<uint32_t>> words(ids.size());
  std::string before;
  for (size_t n = 0; n < ids.size(); ++n) {
    if (tokenizer.is_special(ids[n])) continue;
    const std::string now = tokenizer.decode(ids.first(n + 1), false);
    const auto differs = static_cast<size_t>(std::ranges::mismatch(before, now).in2 - now.begin());
    WordCounter counter;
    for (size_t at = 0; at < now.size();) {
      const auto [character, length] = text::first_code_point(std::string_view(now).substr(at));
      const bool letter = counter.add(character);
      at += length;
      if (letter && at > differs) {
        words[n] = counter.words() - 1;
        break;
      }
    }
    before = now;
  }
  return words;
}

std::vector<WordLink> link_words(std::span<const float> attention,
                                 std::span<const std::optional<uint32_t>> source,
                                 std::span<const std::optional<uint32_t>> translation) {
  std::map<uint32_t, std::map<uint32_t, double>> weights; // by word of the translation, then of the source
  for (size_t row = 0; row < translation.size(); ++row) {
    if (!translation[row]) continue;
    for (size_t column = 0; column < source.size(); ++column) {
      if (source[column])
        weights[*translation[row]][*source[column]] += attention[row * source.size() + column];
    }
  }
  std::vector<WordLink> links;
  for (const auto& [word, from] : weights) {
    const auto most = std::ranges::max_element(from, {}, [](const auto& each) { return each.second; });
    links.emplace_back(most->first, word);
  }
  return links;
}

uint32_t alignment_layer(const ModelShape& shape) {
  const auto layers = static_cast<uint32_t>(shape.layers.size());
  return layers > 1 ? layers - 2 : 0;
}

Aligner::Aligner(const std::shared_ptr<const Model>& model, std::shared_ptr<const Tokenizer> tokenizer,
                 uint32_t layer, std::optional<uint32_t> head, std::vector<uint32_t> prompt, uint32_t prefix)
    : reader_(model, layer), tokenizer_(std::move(tokenizer)), head_(head), prompt_(std::move(prompt)),
      prefix_(prefix) {}

Result<std::vector<WordLink>> Aligner::align(const EncoderInput& input, std::span<const uint32_t> output) {
  if (output.empty() || input.tokens.empty()) return std::vector<WordLink>();
  PUMICE_TRY(const AttentionMap weights, reader_.read(input, prompt_, output));
  std::vector<std::optional<uint32_t>> source = words_of_tokens(*tokenizer_, input.tokens);
  for (std::optional<uint32_t>& word : source)
    word = word && *word >= prefix_ ? std::optional(*word - prefix_) : std::nullopt;
  return link_words(weights.of(head_), source, words_of_tokens(*tokenizer_, output));
}

} // namespace pumice
