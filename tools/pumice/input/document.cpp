#include "input/document.h"

#include <algorithm>
#include <string_view>

#include "input/paragraphs.h"
#include "text/unicode/sentences.h"

namespace pumice::command {

bool Source::answered() const {
  return std::ranges::none_of(sentences, [](const Sentence& each) { return each.written.empty(); });
}

std::vector<Sentence> sentences_of(const std::string& text, bool split) {
  std::vector<Sentence> sentences;
  if (is_blank(text)) return sentences;
  if (!split) return {{text, "", {}}};
  for (const std::string_view each : split_sentences(text)) {
    const size_t end = each.find_last_not_of(white_space);
    if (end == std::string_view::npos) { // only spaces, at the beginning
      if (!sentences.empty()) sentences.back().after += each;
      continue;
    }
    sentences.push_back({std::string(each.substr(0, end + 1)), std::string(each.substr(end + 1)), {}});
  }
  return sentences;
}

std::vector<WrittenText> joined(const Source& source, const GenerationConfig& config,
                                const Tokenizer& tokenizer) {
  if (source.blank()) return {{}};
  size_t count = source.sentences.front().written.size();
  for (const Sentence& each : source.sentences) count = std::min(count, each.written.size());
  std::vector<WrittenText> texts(count);
  for (size_t n = 0; n < count; ++n) {
    WrittenText& whole = texts[n];
    for (size_t i = 0; i < source.sentences.size(); ++i) {
      const WrittenText part = written_text(source.sentences[i].written[n], config, tokenizer);
      if (i > 0) {
        const std::string& between = source.sentences[i - 1].after;
        whole.text += between.empty() && needs_space(whole.text) ? " " : between;
      }
      whole.text += part.text;
      whole.tokens.insert(whole.tokens.end(), part.tokens.begin(), part.tokens.end());
      whole.score += part.score;
    }
  }
  return texts;
}

} // namespace pumice::command
