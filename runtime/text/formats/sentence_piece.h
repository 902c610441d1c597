#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "text/formats/sentence_piece_file.h"
#include "text/model.h"

namespace pumice::text {

// Normalizes and cuts text as a SentencePiece model file says.
class SentencePiece {
public:
  virtual ~SentencePiece() = default;

  // Appends the pieces of a text. A run of unknown characters is one piece: the library gives its text, the
  // implementation here gives the unknown token.
  virtual void append_pieces(std::string_view escaped, std::vector<std::string>& pieces) const = 0;
};

using SentencePiecePtr = std::unique_ptr<const SentencePiece>;

// Uses the sentencepiece library if the build has it, otherwise make_own_sentence_piece(), which uses this
// library's tokenizer steps.
Result<SentencePiecePtr> make_sentence_piece(const SentencePieceFile& file);
Result<SentencePiecePtr> make_own_sentence_piece(const SentencePieceFile& file);

// A model that looks up the ids of the pieces in `vocabulary`, which must outlive it. With `language_codes`,
// a ">>fra<<" at the start of the caller's text is one piece: it names the language into which Marian
// translates.
ModelPtr make_sentence_piece_model(SentencePiecePtr pieces, const Vocabulary& vocabulary, uint32_t unknown,
                                   bool language_codes);

} // namespace pumice::text
