#include "text/unigram.h"

#include <algorithm>
#include <limits>

#include "text/prefix_tree.h"
#include "text/unknown_text.h"

namespace pumice::text {

namespace {

constexpr double kUnknownPenalty = 10;
constexpr uint32_t kUnknown = UINT32_MAX;

class Unigram final : public Model {
public:
  Unigram(const Vocabulary& vocabulary, std::vector<double> scores, const UnigramOptions& options)
      : scores_(std::move(scores)), unknown_(options.unknown),
        unknown_text_(vocabulary, options.byte_fallback, options.unknown, /*fuse=*/true) {
    std::vector<PrefixTree::Entry> entries;
    double worst = std::numeric_limits<double>::max();
    for (uint32_t id = 0; id < scores_.size(); ++id) {
      const bool left_out = id < options.left_out.size() && options.left_out[id];
      const std::string_view piece = vocabulary.piece(id);
      if (left_out || piece.empty()) continue;
      worst = std::min(worst, scores_[id]);
      if (vocabulary.find(piece) == id)
        entries.push_back({piece, id}); // if several ids have the spelling, the one that find() gives
    }
    unknown_score_ = entries.empty() ? 0 : worst - kUnknownPenalty;
    tree_ = PrefixTree(std::move(entries));
  }

  void append_ids(const Pieces& pieces, std::vector<uint32_t>& ids) const override {
    std::vector<Best> best;
    std::vector<Segment> segments;
    for (Span span : pieces.spans) append_piece(pieces.view(span), best, segments, ids);
  }

private:
  // The best way to cut the piece up to a position.
  struct Best {
    double score = -std::numeric_limits<double>::infinity();
    uint32_t start = 0; // where its last token begins
    uint32_t id = kUnknown;
  };
  struct Segment {
    std::string_view text;
    uint32_t id;
  };

  void append_piece(std::string_view piece, std::vector<Best>& best, std::vector<Segment>& segments,
                    std::vector<uint32_t>& ids) const {
    find_best(piece, best);
    segments.clear();
    for (size_t end = piece.size(); end > 0;) {
      const Best& last = best[end];
      const bool is_unknown = last.id == kUnknown || last.id == unknown_;
      const std::string_view text = piece.substr(last.start, end - last.start);
      if (is_unknown && !segments.empty() && segments.back().id == kUnknown) {
        segments.back().text = {text.data(), text.size() + segments.back().text.size()};
      } else {
        segments.push_back({text, is_unknown ? kUnknown : last.id});
      }
      end = last.start;
    }
    for (auto segment = segments.rbegin(); segment != segments.rend(); ++segment) {
      if (segment->id != kUnknown) {
        ids.push_back(segment->id);
      } else {
        append_unknown(segment->text, ids);
      }
    }
  }

  void find_best(std::string_view piece, std::vector<Best>& best) const {
    best.assign(piece.size() + 1, {});
    best[0].score = 0;
    for (size_t at = 0; at < piece.size();) {
      const size_t character = first_code_point(piece.substr(at)).length;
      const double so_far = best[at].score;
      bool has_character = false;
      auto offer = [&](size_t length, uint32_t id, double score) {
        Best& end = best[at + length];
        if (score > end.score) end = {score, static_cast<uint32_t>(at), id};
      };
      tree_.visit_prefixes(piece.substr(at), [&](size_t length, uint32_t id) {
        offer(length, id, so_far + scores_[id]);
        has_character |= length == character;
      });
      if (!has_character) offer(character, kUnknown, so_far + unknown_score_);
      at += character;
    }
  }

  // A run of unknown characters may spell a whole token, such as the unknown token itself.
  void append_unknown(std::string_view text, std::vector<uint32_t>& ids) const {
    std::optional<uint32_t> whole;
    tree_.visit_prefixes(text, [&](size_t length, uint32_t id) {
      if (length == text.size()) whole = id;
    });
    if (whole) {
      ids.push_back(*whole);
    } else {
      unknown_text_.append(text, /*after_unknown=*/false, ids);
    }
  }

  std::vector<double> scores_;
  std::optional<uint32_t> unknown_;
  UnknownText unknown_text_;
  double unknown_score_ = 0;
  PrefixTree tree_;
};

} // namespace

ModelPtr make_unigram(const Vocabulary& vocabulary, std::vector<double> scores,
                      const UnigramOptions& options) {
  return std::make_unique<Unigram>(vocabulary, std::move(scores), options);
}

} // namespace pumice::text
