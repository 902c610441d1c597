#include "text/places/token_places.h"

#include <charconv>

#include "text/places/text_origin.h"
#include "text/tokenizer_parts.h"
#include "text/unicode/unicode.h"

namespace pumice {

namespace {

using text::Span;
using text::TextOrigin;

std::string_view cut(std::string_view text, Span span) {
  return text.substr(span.begin, span.end - span.begin);
}

// How many bytes of a piece a token stands for, which spells them as its kind of model does; 0: it does not
// spell what is there.
size_t spelled_length(std::string_view rest, std::string_view spelled, bool first) {
  if (!spelled.empty() && rest.starts_with(spelled)) return spelled.size();
  std::string_view bare = spelled;
  if (!first && bare.starts_with("##")) bare.remove_prefix(2);
  if (bare.ends_with("</w>")) bare.remove_suffix(4);
  if (bare.size() < spelled.size() && !bare.empty() && rest.starts_with(bare)) return bare.size();
  unsigned byte = 0;
  const bool hexadecimal =
      spelled.size() == 6 && spelled.starts_with("<0x") && spelled.ends_with('>') &&
      std::from_chars(spelled.data() + 3, spelled.data() + 5, byte, 16).ec == std::errc();
  return hexadecimal && !rest.empty() && static_cast<unsigned char>(rest[0]) == byte ? 1 : 0;
}

// The parts of a piece that its tokens stand for. A token that spells none of it, the unknown one, stands for
// all up to the next one that does.
std::vector<Span> parts_of_piece(const text::Vocabulary& vocabulary, std::string_view piece,
                                 std::span<const uint32_t> ids) {
  std::vector<Span> places;
  size_t at = 0;
  for (size_t i = 0; i < ids.size(); ++i) {
    size_t length = spelled_length(piece.substr(at), vocabulary.piece(ids[i]), at == 0);
    if (length == 0) {
      length = piece.size() - at;
      for (size_t next = at + 1; i + 1 < ids.size() && next < piece.size(); ++next) {
        if (!spelled_length(piece.substr(next), vocabulary.piece(ids[i + 1]), false)) continue;
        length = next - at;
        break;
      }
    }
    places.push_back({at, at + length});
    at += length;
  }
  return places;
}

bool inside_character(std::string_view text, size_t at) {
  return at < text.size() && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80;
}

// Whole characters, without white space around them.
Span trimmed(std::string_view text, Span span) {
  while (span.begin > 0 && inside_character(text, span.begin)) --span.begin;
  while (inside_character(text, span.end)) ++span.end;
  while (span.begin < span.end) {
    const text::CodePoint first = text::first_code_point(cut(text, span));
    if (!text::is_white_space(first.value)) break;
    span.begin += first.length;
  }
  while (span.begin < span.end) {
    const text::CodePoint last = text::last_code_point(cut(text, span));
    if (!text::is_white_space(last.value)) break;
    span.end -= last.length;
  }
  return span;
}

class Placer {
public:
  Placer(const TokenizerParts& parts, std::string_view whole) : parts_(parts), whole_(whole) {}

  std::vector<Tokenizer::PlacedToken> place() {
    for (const text::AddedTokens::Segment& segment : parts_.added_tokens.cut_raw(whole_, true)) {
      if (segment.id) {
        add(*segment.id, segment.span);
        ++word_;
      } else {
        place_raw(segment.span);
      }
      at_start_ = false;
    }
    return std::move(tokens_);
  }

private:
  void add(uint32_t id, Span span) {
    span = trimmed(whole_, span);
    tokens_.push_back({id, word_, span.begin, span.end});
  }

  void place_raw(Span span) {
    const std::string raw(cut(whole_, span));
    const auto normalise = [&](std::string text) {
      if (parts_.normalizer) parts_.normalizer->apply(text);
      return text;
    };
    const std::string normal = normalise(raw);
    const TextOrigin origin(raw, normal, normalise);
    for (const text::AddedTokens::Segment& segment : parts_.added_tokens.cut_normalized(normal, true)) {
      const auto whole_span = [&](Span within) {
        const Span of = origin.of({segment.span.begin + within.begin, segment.span.begin + within.end});
        return Span{span.begin + of.begin, span.begin + of.end};
      };
      if (segment.id) {
        add(*segment.id, whole_span({0, segment.span.end - segment.span.begin}));
        ++word_;
      } else {
        place_plain(std::string(cut(normal, segment.span)), at_start_ && segment.span.begin == 0, whole_span);
      }
    }
  }

  template <class WholeSpan>
  void place_plain(const std::string& plain, bool at_start, const WholeSpan& whole_span) {
    text::Pieces pieces(plain, at_start);
    if (parts_.pre_tokenizer) parts_.pre_tokenizer->apply(pieces);
    const TextOrigin origin(plain, pieces.text, [&](std::string text) {
      text::Pieces alone(std::move(text), false);
      if (parts_.pre_tokenizer) parts_.pre_tokenizer->apply(alone);
      return alone.text;
    });
    for (const Span piece : pieces.spans) {
      std::vector<uint32_t> ids;
      const std::string_view spelled = pieces.view(piece);
      parts_.model->append_ids(text::Pieces(std::string(spelled)), ids);
      const std::vector<Span> places = parts_of_piece(parts_.vocabulary, spelled, ids);
      for (size_t i = 0; i < ids.size(); ++i)
        add(ids[i], whole_span(origin.of({piece.begin + places[i].begin, piece.begin + places[i].end})));
      ++word_;
    }
  }

  const TokenizerParts& parts_;
  const std::string_view whole_;
  bool at_start_ = true;
  uint32_t word_ = 0;
  std::vector<Tokenizer::PlacedToken> tokens_;
};

} // namespace

std::vector<Tokenizer::PlacedToken> place_tokens(const TokenizerParts& parts, std::string_view text) {
  return Placer(parts, text).place();
}

} // namespace pumice
