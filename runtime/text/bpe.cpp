#include "text/bpe.h"

#include <algorithm>
#include <array>
#include <queue>

#include <fmt/format.h>

#include "text/merge_table.h"
#include "text/unknown_text.h"

namespace pumice::text {

namespace {

constexpr uint32_t kEnd = UINT32_MAX;

// The symbols of one piece: a linked list in an array, so that joining two symbols moves no others.
class Symbols {
public:
  explicit Symbols(const MergeTable& merges) : merges_(merges) {}

  // Joins the symbols of `ids` from index `from` on, in place, until no pair can be joined.
  void merge(std::vector<uint32_t>& ids, size_t from) {
    links_.clear();
    queue_.clear();
    auto count = static_cast<uint32_t>(ids.size() - from);
    uint32_t* id = ids.data() + from;
    for (uint32_t i = 0; i < count; ++i) {
      links_.push_back({i == 0 ? kEnd : i - 1, i + 1 == count ? kEnd : i + 1});
    }
    for (uint32_t i = 0; i + 1 < count; ++i) consider(id, i);
    while (!queue_.empty()) {
      std::pop_heap(queue_.begin(), queue_.end(), std::greater<>());
      uint64_t wanted = queue_.back();
      queue_.pop_back();
      join(id, static_cast<uint32_t>(wanted), static_cast<uint32_t>(wanted >> 32));
    }
    uint32_t count_left = 0;
    for (uint32_t i = 0; i < count; i = links_[i].next) id[count_left++] = id[i];
    ids.resize(from + count_left);
  }

private:
  struct Link {
    uint32_t previous, next;
  };

  // Queues the pair that begins at `left` if it can be joined. The queue gives the lowest rank first, then
  // the leftmost.
  void consider(const uint32_t* id, uint32_t left) {
    MergeTable::Merge merge = merges_.find(id[left], id[links_[left].next]);
    if (merge.rank == MergeTable::kNone) return;
    queue_.push_back(uint64_t{merge.rank} << 32 | left);
    std::push_heap(queue_.begin(), queue_.end(), std::greater<>());
  }

  void join(uint32_t* id, uint32_t left, uint32_t rank) {
    uint32_t right = links_[left].next;
    if (right == kEnd) return; // the last symbol, or joined to another
    MergeTable::Merge merge = merges_.find(id[left], id[right]);
    if (merge.rank != rank) return; // one of the two was joined since
    id[left] = merge.id;
    uint32_t after = links_[right].next;
    links_[left].next = after;
    links_[right].next = kEnd; // joined
    if (after != kEnd) {
      links_[after].previous = left;
      consider(id, left);
    }
    if (links_[left].previous != kEnd) consider(id, links_[left].previous);
  }

  const MergeTable& merges_;
  std::vector<Link> links_;
  std::vector<uint64_t> queue_;
};

class Bpe final : public Model {
public:
  Bpe(const Vocabulary& vocabulary, MergeTable merges, BpeOptions options)
      : vocabulary_(vocabulary), merges_(std::move(merges)), options_(std::move(options)),
        unknown_text_(vocabulary, options_.byte_fallback, options_.unknown, options_.fuse_unknown) {}

  void append_ids(const Pieces& pieces, std::vector<uint32_t>& ids) const override {
    Symbols symbols(merges_);
    for (Span span : pieces.spans) {
      std::string_view piece = pieces.view(span);
      if (options_.ignore_merges) {
        if (auto id = vocabulary_.find(piece)) {
          ids.push_back(*id);
          continue;
        }
      }
      size_t from = ids.size();
      append_characters(piece, ids);
      symbols.merge(ids, from);
    }
  }

private:
  void append_characters(std::string_view piece, std::vector<uint32_t>& ids) const {
    bool decorated = !options_.continuing_prefix.empty() || !options_.word_suffix.empty();
    bool after_unknown = false;
    std::string with_marks;
    for (size_t at = 0; at < piece.size();) {
      std::string_view character = piece.substr(at, first_code_point(piece.substr(at)).length);
      size_t end = at + character.size();
      if (decorated) {
        with_marks = at > 0 ? options_.continuing_prefix : "";
        with_marks += character;
        if (end == piece.size()) with_marks += options_.word_suffix;
      }
      if (auto id = vocabulary_.find(decorated ? with_marks : character)) {
        ids.push_back(*id);
        after_unknown = false;
      } else {
        after_unknown = unknown_text_.append(character, after_unknown, ids);
      }
      at = end;
    }
  }

  const Vocabulary& vocabulary_;
  MergeTable merges_;
  BpeOptions options_;
  UnknownText unknown_text_;
};

} // namespace

void Merges::add(std::string_view left, std::string_view right) {
  list.push_back({static_cast<uint32_t>(text.size()), static_cast<uint32_t>(left.size()),
                  static_cast<uint32_t>(right.size())});
  text.append(left).append(right);
}

namespace {

// The tokens of a merge, and the one that they become.
struct MergedTokens {
  Vocabulary::Prepared left, right, joined;
  std::string without_prefix; // the text of `joined`, where a prefix is left out

  void prepare(const Merges& merges, uint32_t rank, const std::string& prefix, const Vocabulary& vocabulary) {
    const Merges::Merge& merge = merges.list[rank];
    std::string_view text = std::string_view(merges.text).substr(merge.begin, merge.left + merge.right);
    left = vocabulary.prepare(text.substr(0, merge.left));
    right = vocabulary.prepare(text.substr(merge.left));
    if (!prefix.empty() && right.piece.starts_with(prefix)) {
      without_prefix = left.piece;
      without_prefix += right.piece.substr(prefix.size());
      text = without_prefix;
    }
    joined = vocabulary.prepare(text);
  }
};

struct MergedIds {
  std::optional<uint32_t> left, right, joined;
};

} // namespace

Result<ModelPtr> make_bpe(const Vocabulary& vocabulary, const Merges& merges, BpeOptions options,
                          const std::string& where) {
  // In blocks, because nearly all of the time is waiting for memory.
  constexpr uint32_t kBlock = 32;
  std::array<MergedTokens, kBlock> tokens;
  std::array<MergedIds, kBlock> ids;
  const auto count = static_cast<uint32_t>(merges.list.size());
  MergeTable table(count);
  for (uint32_t begin = 0; begin < count; begin += kBlock) {
    const uint32_t block = std::min(kBlock, count - begin);
    for (uint32_t i = 0; i < block; ++i)
      tokens[i].prepare(merges, begin + i, options.continuing_prefix, vocabulary);
    for (uint32_t i = 0; i < block; ++i) {
      const auto& [left, right, joined, text] = tokens[i];
      ids[i] = {vocabulary.find(left), vocabulary.find(right), vocabulary.find(joined)};
      if (!ids[i].left || !ids[i].right || !ids[i].joined) {
        const Vocabulary::Prepared& none = !ids[i].left ? left : !ids[i].right ? right : joined;
        return Error{Code::invalid_file,
                     fmt::format("{}[{}]: expected tokens of the vocabulary, found \"{}\", which is not one",
                                 where, begin + i, none.piece)};
      }
      table.prepare(*ids[i].left, *ids[i].right);
    }
    for (uint32_t i = 0; i < block; ++i) table.set(*ids[i].left, *ids[i].right, {begin + i, *ids[i].joined});
  }
  return ModelPtr(std::make_unique<Bpe>(vocabulary, std::move(table), std::move(options)));
}

} // namespace pumice::text
