#include "task/translation/document.h"

#include "text/unicode/sentences.h"
#include "text/unicode/unicode.h"
#include <algorithm>

namespace pumice {

namespace {

constexpr std::string_view white_space = " \t\r\n";

// Whether what follows a text is set apart by a space: not in languages that are written without.
bool needs_space(std::string_view text) {
  if (text.empty()) return false;
  const char32_t last = text::last_code_point(text).value;
  const bool wide = (last >= 0x3000 && last <= 0x30FF) || (last >= 0xFF00 && last <= 0xFFEF);
  return !wide && !text::is_chinese(last);
}

} // namespace

bool is_blank(std::string_view text) {
  return text.find_first_not_of(white_space) == std::string_view::npos;
}

void append_line(std::string& paragraph, std::string_view line) {
  paragraph.resize(paragraph.find_last_not_of(white_space) + 1);
  line.remove_prefix(std::min(line.find_first_not_of(white_space), line.size()));
  if (needs_space(paragraph)) paragraph += ' ';
  paragraph += line;
}

bool Source::cut() const {
  return std::ranges::any_of(sentences, &Sentence::cut);
}

bool Source::lacks_terms() const {
  return std::ranges::any_of(sentences, &Sentence::lacks_terms);
}

bool Source::answered() const {
  return std::ranges::none_of(sentences, [](const Sentence& each) { return each.written.empty(); });
}

std::vector<Sentence> sentences_of(const std::string& text, bool split) {
  std::vector<Sentence> sentences;
  if (is_blank(text)) return sentences;
  if (!split) return {{text, ""}};
  for (const std::string_view each : split_sentences(text)) {
    const size_t end = each.find_last_not_of(white_space);
    if (end == std::string_view::npos) { // only spaces, at the beginning
      if (!sentences.empty()) sentences.back().after += each;
      continue;
    }
    sentences.push_back({std::string(each.substr(0, end + 1)), std::string(each.substr(end + 1))});
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

} // namespace pumice
