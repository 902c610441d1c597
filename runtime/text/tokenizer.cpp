#include "text/tokenizer.h"

#include <fstream>
#include <new>

#include <fmt/format.h>

#include "text/tokenizer_parts.h"
#include "text/unicode.h"

namespace pumice {

namespace {

// Models count characters in 32 bits. Real pieces are far shorter, so where a longer one is cut does not
// matter.
constexpr size_t kMaxPiece = size_t{1} << 28;
constexpr uint64_t kMaxFile = uint64_t{1} << 30;

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

void encode_plain(const TokenizerParts& parts, std::string text, bool at_start, std::vector<uint32_t>& ids) {
  text::Pieces pieces(std::move(text), at_start);
  if (parts.pre_tokenizer) parts.pre_tokenizer->apply(pieces);
  if (pieces.text.size() > kMaxPiece) cut_long_pieces(pieces);
  parts.model->append_ids(pieces, ids);
}

// Text between the tokens that are looked for before normalization.
void encode_raw(const TokenizerParts& parts, std::string text, bool at_start, std::vector<uint32_t>& ids) {
  if (parts.normalizer) parts.normalizer->apply(text);
  for (const text::AddedTokens::Part& part : parts.added_tokens.cut_normalized(text)) {
    if (part.id) {
      ids.push_back(*part.id);
    } else {
      encode_plain(parts, text.substr(part.span.begin, part.span.end - part.span.begin),
                   at_start && part.span.begin == 0, ids);
    }
  }
}

Result<std::string> read_file(const std::filesystem::path& path) {
  std::error_code code;
  uint64_t size = std::filesystem::file_size(path, code);
  if (code) return Error{Code::not_found, fmt::format("{}: {}", path.string(), code.message())};
  if (size > kMaxFile) {
    return Error{Code::invalid_file,
                 fmt::format("{}: expected at most {} bytes, found {}", path.string(), kMaxFile, size)};
  }
  std::ifstream in(path, std::ios::binary);
  std::string text(size, '\0');
  if (!in.read(text.data(), static_cast<std::streamsize>(size))) {
    return Error{Code::io, fmt::format("{}: cannot be read", path.string())};
  }
  return text;
}

} // namespace

Tokenizer::Tokenizer(std::unique_ptr<const TokenizerParts> parts) : parts_(std::move(parts)) {}
Tokenizer::~Tokenizer() = default;

Result<std::shared_ptr<const Tokenizer>> Tokenizer::load(const std::filesystem::path& tokenizer_json) {
  PUMICE_TRY(std::string json, read_file(tokenizer_json));
  return parse_json(json, tokenizer_json.string());
}

Result<std::shared_ptr<const Tokenizer>> Tokenizer::parse_json(std::string_view json, std::string file) try {
  PUMICE_TRY(auto parts, text::read_huggingface(json, file));
  return std::shared_ptr<const Tokenizer>(new Tokenizer(std::move(parts)));
} catch (const std::bad_alloc&) {
  return Error{Code::out_of_memory, fmt::format("{}: not enough memory for the tokenizer", file)};
}

Result<std::shared_ptr<const Tokenizer>> Tokenizer::from_gguf(const GgufVocabulary& vocabulary) try {
  PUMICE_TRY(auto parts, text::read_gguf(vocabulary));
  return std::shared_ptr<const Tokenizer>(new Tokenizer(std::move(parts)));
} catch (const std::bad_alloc&) {
  return Error{Code::out_of_memory, fmt::format("{}: not enough memory for the tokenizer", vocabulary.file)};
}

std::vector<uint32_t> Tokenizer::encode(std::string_view bytes, bool add_special) const {
  std::vector<uint32_t> ids;
  if (add_special) ids = parts_->post_processor.before;
  std::string escaped = text::escape_bytes(bytes);
  for (const text::AddedTokens::Part& part : parts_->added_tokens.cut_raw(escaped)) {
    if (part.id) {
      ids.push_back(*part.id);
    } else {
      encode_raw(*parts_, escaped.substr(part.span.begin, part.span.end - part.span.begin),
                 part.span.begin == 0, ids);
    }
  }
  const std::vector<uint32_t>& after = parts_->post_processor.after;
  if (add_special) ids.insert(ids.end(), after.begin(), after.end());
  return ids;
}

std::string Tokenizer::decode(std::span<const uint32_t> ids, bool keep_special) const {
  DecoderStream stream(parts_->decoders);
  for (uint32_t id : ids) {
    if (parts_->vocabulary.has(id) && (keep_special || !is_special(id))) stream.push(piece(id));
  }
  stream.finish();
  return stream.take();
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
