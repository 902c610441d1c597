#include "text/wordpiece.h"

#include <algorithm>

namespace pumice::text {

namespace {

size_t count_characters(std::string_view word) {
  return static_cast<size_t>(std::count_if(
      word.begin(), word.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

class WordPiece final : public Model {
public:
  WordPiece(const Vocabulary& vocabulary, WordPieceOptions options)
      : vocabulary_(vocabulary), options_(std::move(options)) {}

  void append_ids(const Pieces& pieces, std::vector<uint32_t>& ids) const override {
    for (Span span : pieces.spans) {
      const size_t before = ids.size();
      if (append_word(pieces.view(span), ids)) continue;
      ids.resize(before);
      ids.push_back(options_.unknown);
    }
  }

private:
  bool append_word(std::string_view word, std::vector<uint32_t>& ids) const {
    if (count_characters(word) > options_.max_characters) return false;
    std::string candidate;
    for (size_t at = 0; at < word.size();) {
      const std::string_view prefix = at > 0 ? std::string_view(options_.continuing_prefix) : "";
      if (prefix.size() > vocabulary_.longest_piece()) return false;
      const size_t longest = std::min(word.size() - at, vocabulary_.longest_piece() - prefix.size());
      candidate.assign(prefix).append(word.substr(at, longest));
      std::optional<uint32_t> id;
      while (candidate.size() > prefix.size() && !(id = vocabulary_.find(candidate))) candidate.pop_back();
      if (!id) return false;
      ids.push_back(*id);
      at += candidate.size() - prefix.size();
    }
    return true;
  }

  const Vocabulary& vocabulary_;
  WordPieceOptions options_;
};

} // namespace

ModelPtr make_wordpiece(const Vocabulary& vocabulary, WordPieceOptions options) {
  return std::make_unique<WordPiece>(vocabulary, std::move(options));
}

} // namespace pumice::text
