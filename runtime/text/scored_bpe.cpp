#include "text/scored_bpe.h"

#include <algorithm>

#include "text/unknown_text.h"

namespace pumice::text {

namespace {

constexpr uint32_t kEnd = UINT32_MAX;

struct Symbol {
  uint32_t begin, length; // in the piece; length 0: joined to an earlier symbol
  uint32_t previous, next;
};

struct Candidate {
  float score;
  uint32_t left;
  uint32_t length; // of both symbols, to detect that either was joined since

  // The top of a heap is its greatest element: the highest score, then the leftmost.
  bool operator<(const Candidate& other) const {
    return score != other.score ? score < other.score : left > other.left;
  }
};

class ScoredBpe final : public Model {
public:
  ScoredBpe(const Vocabulary& vocabulary, std::vector<float> scores, ScoredBpeOptions options)
      : vocabulary_(vocabulary), scores_(std::move(scores)),
        unknown_text_(vocabulary, /*byte_fallback=*/true, options.unknown, /*fuse=*/false) {}

  void append_ids(const Pieces& pieces, std::vector<uint32_t>& ids) const override {
    Work work;
    for (Span span : pieces.spans) {
      join(pieces.view(span), work);
      bool after_unknown = false;
      for (uint32_t i = 0; i != kEnd && !work.symbols.empty(); i = work.symbols[i].next) {
        std::string_view symbol = pieces.view(span).substr(work.symbols[i].begin, work.symbols[i].length);
        if (auto id = vocabulary_.find(symbol)) {
          ids.push_back(*id);
          after_unknown = false;
        } else {
          after_unknown = unknown_text_.append(symbol, after_unknown, ids);
        }
      }
    }
  }

private:
  struct Work {
    std::vector<Symbol> symbols;
    std::vector<Candidate> queue;
  };

  void join(std::string_view piece, Work& work) const {
    std::vector<Symbol>& symbols = work.symbols;
    symbols.clear();
    work.queue.clear();
    for (size_t at = 0; at < piece.size();) {
      uint32_t length = first_code_point(piece.substr(at)).length;
      auto index = static_cast<uint32_t>(symbols.size());
      symbols.push_back({static_cast<uint32_t>(at), length, index == 0 ? kEnd : index - 1, index + 1});
      at += length;
    }
    if (symbols.empty()) return;
    symbols.back().next = kEnd;
    for (uint32_t i = 0; i + 1 < symbols.size(); ++i) consider(piece, i, work);
    while (!work.queue.empty()) {
      std::pop_heap(work.queue.begin(), work.queue.end());
      Candidate best = work.queue.back();
      work.queue.pop_back();
      Symbol& left = symbols[best.left];
      if (left.length == 0 || left.next == kEnd) continue;
      Symbol& right = symbols[left.next];
      if (left.length + right.length != best.length) continue;
      left.length += right.length;
      right.length = 0;
      left.next = right.next;
      if (left.next != kEnd) {
        symbols[left.next].previous = best.left;
        consider(piece, best.left, work);
      }
      if (left.previous != kEnd) consider(piece, left.previous, work);
    }
  }

  void consider(std::string_view piece, uint32_t left, Work& work) const {
    const Symbol& symbol = work.symbols[left];
    uint32_t length = symbol.length + work.symbols[symbol.next].length;
    auto id = vocabulary_.find(piece.substr(symbol.begin, length));
    if (!id) return;
    work.queue.push_back({scores_[*id], left, length});
    std::push_heap(work.queue.begin(), work.queue.end());
  }

  const Vocabulary& vocabulary_;
  std::vector<float> scores_;
  UnknownText unknown_text_;
};

} // namespace

ModelPtr make_scored_bpe(const Vocabulary& vocabulary, std::vector<float> scores, ScoredBpeOptions options) {
  return std::make_unique<ScoredBpe>(vocabulary, std::move(scores), options);
}

} // namespace pumice::text
