#include "text/unicode/pre_tokenizer.h"

#include <optional>

#include "text/unicode/byte_level.h"
#include "text/unicode/normalizer.h"

namespace pumice::text {

namespace {

// Replaces every piece. `write(out, piece, is_first)` appends the replacement.
template <class Write>
void rewrite_pieces(Pieces& pieces, const Write& write) {
  std::string text;
  text.reserve(pieces.text.size());
  bool at_start = pieces.at_start && !pieces.spans.empty() && pieces.spans.front().begin == 0;
  bool is_first = at_start;
  for (Span& span : pieces.spans) {
    size_t begin = text.size();
    write(text, pieces.view(span), is_first);
    span = {begin, text.size()};
    is_first = false;
  }
  pieces.text = std::move(text);
  pieces.at_start = at_start;
}

class SplitAt final : public PreTokenizer {
public:
  using Find = std::vector<Span> (*)(std::string_view);
  SplitAt(Find find, SplitBehavior behavior, bool invert = false)
      : find_(find), behavior_(behavior), invert_(invert) {}
  void apply(Pieces& pieces) const override { split_pieces(pieces, behavior_, invert_, find_); }

private:
  Find find_;
  SplitBehavior behavior_;
  bool invert_;
};

class SplitRegex final : public PreTokenizer {
public:
  SplitRegex(Regex pattern, SplitBehavior behavior, bool invert)
      : pattern_(std::move(pattern)), behavior_(behavior), invert_(invert) {}
  void apply(Pieces& pieces) const override {
    split_pieces(pieces, behavior_, invert_, [&](std::string_view piece) { return pattern_.matches(piece); });
  }

private:
  Regex pattern_;
  SplitBehavior behavior_;
  bool invert_;
};

class SplitString final : public PreTokenizer {
public:
  SplitString(std::string delimiter, SplitBehavior behavior, bool invert)
      : delimiter_(std::move(delimiter)), behavior_(behavior), invert_(invert) {}
  void apply(Pieces& pieces) const override {
    split_pieces(pieces, behavior_, invert_, [&](std::string_view piece) {
      std::vector<Span> found;
      for (size_t at = 0; !delimiter_.empty();) {
        at = piece.find(delimiter_, at);
        if (at == std::string_view::npos) break;
        found.push_back({at, at + delimiter_.size()});
        at += delimiter_.size();
      }
      return found;
    });
  }

private:
  std::string delimiter_;
  SplitBehavior behavior_;
  bool invert_;
};

class ByteLevel final : public PreTokenizer {
public:
  ByteLevel(bool add_prefix_space, std::optional<Regex> split)
      : add_prefix_space_(add_prefix_space), split_(std::move(split)) {}

  void apply(Pieces& pieces) const override {
    if (add_prefix_space_) {
      rewrite_pieces(pieces, [](std::string& out, std::string_view piece, bool) {
        if (!piece.starts_with(' ')) out += ' ';
        out += piece;
      });
    }
    if (split_) {
      split_pieces(pieces, SplitBehavior::isolated, false,
                   [&](std::string_view piece) { return split_->matches(piece); });
    }
    rewrite_pieces(pieces,
                   [](std::string& out, std::string_view piece, bool) { append_byte_level(out, piece); });
  }
  double growth() const override { return add_prefix_space_ ? 4 : 2; }

private:
  bool add_prefix_space_;
  std::optional<Regex> split_;
};

class Metaspace final : public PreTokenizer {
public:
  Metaspace(std::string replacement, PrependScheme scheme, bool split)
      : replacement_(std::move(replacement)), scheme_(scheme),
        splitter_(replacement_, SplitBehavior::merged_with_next, false), split_(split) {}

  void apply(Pieces& pieces) const override {
    rewrite_pieces(pieces, [&](std::string& out, std::string_view piece, bool is_first) {
      bool prepend = scheme_ == PrependScheme::always || (scheme_ == PrependScheme::first && is_first);
      if (prepend && !piece.starts_with(' ') && !piece.starts_with(replacement_)) out += replacement_;
      out += replace_all(piece, " ", replacement_);
    });
    if (split_) splitter_.apply(pieces);
  }
  double growth() const override { return 1.0 + static_cast<double>(replacement_.size()); }

private:
  std::string replacement_;
  PrependScheme scheme_;
  SplitString splitter_;
  bool split_;
};

class PreTokenizerSequence final : public PreTokenizer {
public:
  explicit PreTokenizerSequence(std::vector<PreTokenizerPtr> steps) : steps_(std::move(steps)) {}
  void apply(Pieces& pieces) const override {
    for (const PreTokenizerPtr& step : steps_) step->apply(pieces);
  }
  double growth() const override {
    double product = 1;
    for (const PreTokenizerPtr& step : steps_) product *= step->growth();
    return product;
  }

private:
  std::vector<PreTokenizerPtr> steps_;
};

std::vector<Span> find_white_space(std::string_view piece) {
  return find_characters(piece, is_white_space);
}
std::vector<Span> find_punctuation(std::string_view piece) {
  return find_characters(piece, is_punctuation);
}
std::vector<Span> find_numbers(std::string_view piece) {
  return find_characters(piece, is_number);
}

// \w+|[^\w\s]+
std::vector<Span> find_words(std::string_view piece) {
  enum class Kind { space, word, other };
  std::vector<Span> found;
  Kind previous = Kind::space;
  for (size_t at = 0; at < piece.size();) {
    CodePoint point = first_code_point(piece.substr(at));
    Kind kind = is_word(point.value) ? Kind::word : is_white_space(point.value) ? Kind::space : Kind::other;
    if (kind != Kind::space && kind == previous) {
      found.back().end += point.length;
    } else if (kind != Kind::space) {
      found.push_back({at, at + point.length});
    }
    previous = kind;
    at += point.length;
  }
  return found;
}

} // namespace

PreTokenizerPtr make_byte_level(bool add_prefix_space, std::optional<Regex> split) {
  return std::make_unique<ByteLevel>(add_prefix_space, std::move(split));
}
PreTokenizerPtr make_split(Regex pattern, SplitBehavior behavior, bool invert) {
  return std::make_unique<SplitRegex>(std::move(pattern), behavior, invert);
}
PreTokenizerPtr make_split(std::string delimiter, SplitBehavior behavior, bool invert) {
  return std::make_unique<SplitString>(std::move(delimiter), behavior, invert);
}
PreTokenizerPtr make_metaspace(std::string replacement, PrependScheme scheme, bool split) {
  return std::make_unique<Metaspace>(std::move(replacement), scheme, split);
}
PreTokenizerPtr make_digits(bool individual) {
  return std::make_unique<SplitAt>(find_numbers,
                                   individual ? SplitBehavior::isolated : SplitBehavior::contiguous);
}
PreTokenizerPtr make_punctuation(SplitBehavior behavior) {
  return std::make_unique<SplitAt>(find_punctuation, behavior);
}
PreTokenizerPtr make_whitespace() {
  return std::make_unique<SplitAt>(find_words, SplitBehavior::removed, /*invert=*/true);
}
PreTokenizerPtr make_whitespace_split() {
  return std::make_unique<SplitAt>(find_white_space, SplitBehavior::removed);
}
PreTokenizerPtr make_bert_split() {
  std::vector<PreTokenizerPtr> steps;
  steps.push_back(make_whitespace_split());
  steps.push_back(make_punctuation(SplitBehavior::isolated));
  return make_sequence(std::move(steps));
}
PreTokenizerPtr make_sequence(std::vector<PreTokenizerPtr> steps) {
  return std::make_unique<PreTokenizerSequence>(std::move(steps));
}

} // namespace pumice::text
