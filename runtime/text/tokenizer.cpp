#include "text/tokenizer.h"

#include <algorithm>
#include <utility>

#include "text/places/token_places.h"
#include "text/tokenizer_parts.h"
#include "text/unicode/unicode.h"

namespace pumice {

namespace {

// Models count characters in 32 bits. Real pieces are far shorter, so it does not matter where a longer piece
// is cut.
constexpr size_t kMaxPiece = size_t{1} << 28;

void cut_long_pieces(text::Pieces& pieces) {
  std::vector<text::Span> cut;
  for (text::Span span : pieces.spans) {
    while (span.end - span.begin > kMaxPiece) {
      size_t at = span.begin + kMaxPiece;
      while ((static_cast<unsigned char>(pieces.text[at]) & 0xC0) == 0x80) --at;
      cut.push_back({span.begin, at});
      span.begin = at;
    }
    cut.push_back(span);
  }
  pieces.spans = std::move(cut);
}

void encode_plain(const TokenizerParts& parts, const std::string& text, bool at_start,
                  std::vector<uint32_t>& ids) {
  text::Pieces pieces(text, at_start);
  if (parts.pre_tokenizer) parts.pre_tokenizer->apply(pieces);
  if (pieces.text.size() > kMaxPiece) cut_long_pieces(pieces);
  parts.model->append_ids(pieces, ids);
}

// Encodes text that must not give a special token. Some models join the pieces of one again, since it is in
// their vocabulary: then its spelling is cut after its first character.
void encode_as_text(const TokenizerParts& parts, const std::string& text, bool at_start,
                    std::vector<uint32_t>& ids) {
  const size_t before = ids.size();
  encode_plain(parts, text, at_start, ids);
  const auto is_special = [&](uint32_t id) { return parts.added_tokens.is_special(id); };
  if (std::none_of(ids.begin() + static_cast<ptrdiff_t>(before), ids.end(), is_special)) return;
  ids.resize(before);
  size_t done = 0;
  for (const size_t cut : parts.added_tokens.cuts_in_special(text)) {
    encode_plain(parts, text.substr(done, cut - done), at_start && done == 0, ids);
    done = cut;
  }
  encode_plain(parts, text.substr(done), at_start && done == 0, ids);
}

// Encodes text that holds none of the added tokens that are searched for before normalization.
void encode_raw(const TokenizerParts& parts, std::string text, bool at_start, bool special,
                std::vector<uint32_t>& ids) {
  if (parts.normalizer) parts.normalizer->apply(text);
  for (const text::AddedTokens::Segment& segment : parts.added_tokens.cut_normalized(text, special)) {
    if (segment.id) {
      ids.push_back(*segment.id);
      continue;
    }
    const auto encode = special ? encode_plain : encode_as_text;
    encode(parts, text.substr(segment.span.begin, segment.span.end - segment.span.begin),
           at_start && segment.span.begin == 0, ids);
  }
}

// Plain text is encoded as one, whichever parts it comes from: a part's beginning is no beginning of a word.
std::vector<uint32_t> encode_parts(const TokenizerParts& parts, std::span<const Tokenizer::Part> texts) {
  std::vector<uint32_t> ids;
  std::string plain; // since the last special token
  bool at_start = true, special = true;
  const auto encode_plain_text = [&] {
    if (plain.empty()) return;
    encode_raw(parts, std::exchange(plain, {}), at_start, special, ids);
    at_start = false;
    special = true;
  };
  for (const Tokenizer::Part& part : texts) {
    const bool recognised = part.special == Tokenizer::SpecialTokens::recognised;
    const std::string escaped = text::escape_bytes(part.text);
    for (const text::AddedTokens::Segment& segment : parts.added_tokens.cut_raw(escaped, recognised)) {
      if (segment.id) {
        encode_plain_text();
        ids.push_back(*segment.id);
        at_start = false;
      } else {
        const std::string part_text =
            escaped.substr(segment.span.begin, segment.span.end - segment.span.begin);
        // Special tokens that are searched for after normalization must not meet text that may have none.
        const bool apart =
            texts.size() > 1 && recognised && !parts.added_tokens.cuts_in_special(part_text).empty();
        if (apart) encode_plain_text();
        plain += part_text;
        special = special && recognised;
        if (apart) encode_plain_text();
      }
    }
  }
  encode_plain_text();
  return ids;
}

std::vector<uint32_t> encode_text(const TokenizerParts& parts, std::string_view text) {
  const Tokenizer::Part part{text};
  return encode_parts(parts, std::span(&part, 1));
}

// How many tokens of a limit are left for the texts.
size_t tokens_for_text(const text::PostProcessor::Template& sequence, size_t texts, size_t limit) {
  const size_t special = sequence.size() - texts;
  return limit > special ? limit - special : 0;
}

// Whether the script of a phrase's first character puts spaces between words.
bool has_spaces(std::string_view phrase) {
  const char32_t first = text::first_code_point(text::escape_bytes(phrase)).value;
  const bool kana = first >= 0x3040 && first <= 0x30ff, thai_or_lao = first >= 0x0e00 && first <= 0x0eff;
  return !text::is_chinese(first) && !kana && !thai_or_lao;
}

Tokenizer::Encoding apply_template(const text::PostProcessor::Template& sequence,
                                   std::span<const uint32_t> first, std::span<const uint32_t> second) {
  using Kind = text::PostProcessor::Element::Kind;
  Tokenizer::Encoding out;
  for (const text::PostProcessor::Element& element : sequence) {
    std::span<const uint32_t> ids(&element.token, 1);
    if (element.kind != Kind::token) {
      ids = element.kind == Kind::first ? first : second;
      out.begin = out.ids.size();
    }
    out.ids.insert(out.ids.end(), ids.begin(), ids.end());
    out.types.resize(out.ids.size(), element.type);
  }
  return out;
}

} // namespace

Tokenizer::Tokenizer(std::unique_ptr<const TokenizerParts> parts) : parts_(std::move(parts)) {}
Tokenizer::~Tokenizer() = default;

std::vector<uint32_t> Tokenizer::encode(std::string_view text, bool add_special) const {
  const Part part{text};
  return encode(std::span(&part, 1), add_special);
}

std::vector<uint32_t> Tokenizer::encode(std::span<const Part> parts, bool add_special) const {
  if (!add_special) return encode_parts(*parts_, parts);
  return encode_limited(parts, kNoLimit).ids;
}

Result<std::vector<uint32_t>> Tokenizer::encode_within(std::string_view phrase) const {
  std::vector<uint32_t> ids;
  if (phrase.empty()) return ids;
  if (parts_->target_model) {
    PUMICE_TRY(const text::Model* model, parts_->target_model->get());
    const text::Pieces pieces(text::escape_bytes(phrase), true);
    model->append_ids(pieces, ids);
    return ids;
  }
  const std::string before = "a";
  const std::vector<uint32_t> alone = encode_text(*parts_, before);
  ids = encode_text(*parts_, before + (has_spaces(phrase) ? " " : "") + std::string(phrase));
  // Where the two grow together, the phrase stands at the beginning.
  if (ids.size() <= alone.size() || !std::equal(alone.begin(), alone.end(), ids.begin()))
    return encode_text(*parts_, phrase);
  ids.erase(ids.begin(), ids.begin() + static_cast<ptrdiff_t>(alone.size()));
  return ids;
}

Tokenizer::Encoding Tokenizer::encode_limited(std::string_view text, size_t limit) const {
  const Part part{text};
  return encode_limited(std::span(&part, 1), limit);
}

Tokenizer::Encoding Tokenizer::encode_limited(std::span<const Part> parts, size_t limit) const {
  const text::PostProcessor::Template& sequence = parts_->post_processor.single;
  std::vector<uint32_t> ids = encode_parts(*parts_, parts);
  ids.resize(std::min(ids.size(), tokens_for_text(sequence, 1, limit)));
  return apply_template(sequence, ids, {});
}

Tokenizer::Encoding Tokenizer::encode_pair(std::string_view first, std::string_view second,
                                           size_t limit) const {
  const text::PostProcessor::Template& sequence = parts_->post_processor.pair;
  std::vector<uint32_t> a = encode_text(*parts_, first), b = encode_text(*parts_, second);
  const size_t most = tokens_for_text(sequence, 2, limit);
  std::vector<uint32_t>&shorter = a.size() > b.size() ? b : a, &longer = a.size() > b.size() ? a : b;
  if (a.size() + b.size() > most) {
    if (shorter.size() > most / 2) shorter.resize(most / 2);
    longer.resize(most - shorter.size());
  }
  return apply_template(sequence, a, b);
}

std::vector<Tokenizer::PlacedToken> Tokenizer::encode_placed(std::string_view text) const {
  return place_tokens(*parts_, text);
}

Tokenizer::Encoding Tokenizer::around(std::span<const uint32_t> ids) const {
  return apply_template(parts_->post_processor.single, ids, {});
}

Tokenizer::Encoding Tokenizer::around(std::span<const uint32_t> first,
                                      std::span<const uint32_t> second) const {
  return apply_template(parts_->post_processor.pair, first, second);
}

std::string Tokenizer::decode(std::span<const uint32_t> ids, bool keep_special) const {
  Detokenizer stream(parts_->decoders);
  for (uint32_t id : ids) {
    if (parts_->vocabulary.has(id) && (keep_special || !is_special(id))) stream.push(piece(id));
  }
  stream.finish();
  return stream.take();
}

std::vector<std::string> Tokenizer::bytes_within() const {
  std::vector<std::string> all(vocabulary_size());
  // Each token is decoded between tokens whose text is known.
  const std::string_view between = parts_->vocabulary.find("a") ? "a" : "e";
  Detokenizer stream(parts_->decoders);
  stream.push(between);
  stream.push(between);
  stream.take();
  stream.push(between);
  const std::string after = stream.take();
  for (uint32_t id = 0; id < all.size(); ++id) {
    if (!parts_->vocabulary.has(id)) continue;
    std::optional<std::string> bytes;
    for (const text::DecoderPtr& step : parts_->decoders) {
      if (!bytes) bytes = step->bytes(piece(id));
    }
    if (!bytes) {
      stream.push(piece(id));
      stream.push(between);
      bytes = stream.take();
      bytes->resize(bytes->ends_with(after) ? bytes->size() - after.size() : 0);
    }
    all[id] = std::move(*bytes);
  }
  return all;
}

uint32_t Tokenizer::vocabulary_size() const {
  return parts_->vocabulary.size();
}
std::optional<uint32_t> Tokenizer::bos() const {
  return parts_->bos;
}
std::optional<uint32_t> Tokenizer::eos() const {
  return parts_->eos;
}
bool Tokenizer::is_special(uint32_t id) const {
  return parts_->added_tokens.is_special(id);
}
std::string_view Tokenizer::piece(uint32_t id) const {
  return parts_->vocabulary.piece(id);
}

std::optional<uint32_t> Tokenizer::find(std::string_view piece) const {
  if (auto id = parts_->vocabulary.find(piece)) return id;
  return parts_->added_tokens.find(piece);
}

} // namespace pumice
