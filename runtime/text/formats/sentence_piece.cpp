#include "text/formats/sentence_piece.h"

#include <exception>

#include <fmt/format.h>

#include "text/formats/read_tokenizer.h"
#include "text/unicode/space_marks.h"
#include "text/unicode/unicode.h"

#ifdef PUMICE_SENTENCEPIECE
#include <sentencepiece_processor.h>
#endif
#ifdef PUMICE_SENTENCEPIECE_LOG_LEVEL
// Sets how much the library writes to the standard error stream. No header of the library declares it.
namespace sentencepiece::logging {
void SetMinLogLevel(int level);
}
#endif

namespace pumice::text {

namespace {

#ifdef PUMICE_SENTENCEPIECE
class LibrarySentencePiece final : public SentencePiece {
public:
  static Result<SentencePiecePtr> load(const SentencePieceFile& file) try {
#ifdef PUMICE_SENTENCEPIECE_LOG_LEVEL
    sentencepiece::logging::SetMinLogLevel(3); // silent
#endif
    auto made = std::make_unique<LibrarySentencePiece>();
    const sentencepiece::util::Status status = made->processor_.LoadFromSerializedProto(file.bytes);
    if (!status.ok())
      return Error{Code::invalid_file, fmt::format("{}: the sentencepiece library refuses it: {}", file.file,
                                                   status.error_message())};
    return SentencePiecePtr(std::move(made));
  } catch (const std::exception& reason) { // its trie may throw
    return Error{Code::invalid_file,
                 fmt::format("{}: the sentencepiece library refuses it: {}", file.file, reason.what())};
  }

  void append_pieces(std::string_view escaped, std::vector<std::string>& pieces) const override {
    std::vector<std::string> made;
    if (processor_.Encode(unescape_bytes(escaped), &made).ok())
      pieces.insert(pieces.end(), std::make_move_iterator(made.begin()), std::make_move_iterator(made.end()));
  }

private:
  sentencepiece::SentencePieceProcessor processor_;
};
#endif

class OwnSentencePiece final : public SentencePiece {
public:
  OwnSentencePiece(std::unique_ptr<const TokenizerParts> parts, NormalizerPtr normalizer, uint32_t unknown)
      : parts_(std::move(parts)), normalizer_(std::move(normalizer)), unknown_(unknown) {}

  void append_pieces(std::string_view escaped, std::vector<std::string>& pieces) const override {
    std::string text(escaped);
    normalizer_->apply(text);
    std::vector<uint32_t> ids;
    parts_->model->append_ids(Pieces(std::move(text)), ids);
    std::optional<uint32_t> last;
    for (uint32_t id : ids) {
      if (id != unknown_ || id != last) pieces.emplace_back(parts_->vocabulary.piece(id));
      last = id;
    }
  }

private:
  std::unique_ptr<const TokenizerParts> parts_;
  NormalizerPtr normalizer_;
  uint32_t unknown_;
};

class SentencePieceModel final : public Model {
public:
  SentencePieceModel(SentencePiecePtr pieces, const Vocabulary& vocabulary, uint32_t unknown,
                     bool language_codes)
      : pieces_(std::move(pieces)), vocabulary_(vocabulary), unknown_(unknown),
        language_codes_(language_codes) {}

  void append_ids(const Pieces& input, std::vector<uint32_t>& ids) const override {
    bool at_start = input.at_start;
    std::vector<std::string> pieces;
    for (Span span : input.spans) {
      std::string_view text = input.view(span);
      if (language_codes_ && at_start) {
        const size_t code = code_length(text);
        if (code > 0) pieces.emplace_back(text.substr(0, code));
        text.remove_prefix(code);
      }
      at_start = false;
      pieces_->append_pieces(text, pieces);
    }
    for (const std::string& piece : pieces) ids.push_back(vocabulary_.find(piece).value_or(unknown_));
  }

private:
  // The length of the ">>...<<" with which the first line begins, up to the line's last "<<"; 0 if there is
  // none.
  static size_t code_length(std::string_view text) {
    const std::string_view line = text.substr(0, text.find('\n'));
    const size_t end = line.rfind("<<");
    if (!line.starts_with(">>") || end == std::string_view::npos || end < 3) return 0;
    return end + 2;
  }

  SentencePiecePtr pieces_;
  const Vocabulary& vocabulary_;
  uint32_t unknown_;
  bool language_codes_;
};

} // namespace

Result<SentencePiecePtr> make_sentence_piece(const SentencePieceFile& file) {
#ifdef PUMICE_SENTENCEPIECE
  return LibrarySentencePiece::load(file);
#else
  return make_own_sentence_piece(file);
#endif
}

Result<SentencePiecePtr> make_own_sentence_piece(const SentencePieceFile& file) {
  using Kind = SentencePieceFile::Kind;
  if (file.kind != Kind::unigram && file.kind != Kind::bpe) {
    return Error{
        Code::unsupported,
        fmt::format("{}: expected a unigram or BPE model, found one of words or characters", file.file)};
  }
  Tokenizer::GgufVocabulary table;
  table.file = file.file;
  table.model = file.kind == Kind::unigram ? "t5" : "llama";
  table.unknown = file.unknown;
  for (const SentencePieceFile::Piece& piece : file.pieces) {
    table.tokens.push_back(piece.text);
    table.scores.push_back(piece.score);
    table.types.push_back(static_cast<int32_t>(piece.type));
  }
  PUMICE_TRY(std::unique_ptr<const TokenizerParts> parts, read_gguf(table));
  PUMICE_TRY(NormalizerPtr normalizer,
             make_space_normalizer(file.character_map, file.add_prefix, file.remove_extra_spaces, file.file));
  return SentencePiecePtr(
      std::make_unique<OwnSentencePiece>(std::move(parts), std::move(normalizer), file.unknown));
}

ModelPtr make_sentence_piece_model(SentencePiecePtr pieces, const Vocabulary& vocabulary, uint32_t unknown,
                                   bool language_codes) {
  return std::make_unique<SentencePieceModel>(std::move(pieces), vocabulary, unknown, language_codes);
}

} // namespace pumice::text
