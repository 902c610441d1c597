#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "text/formats/sentence_piece_file.h"
#include "text/model.h"

namespace pumice::text {

// Cuts text as a SentencePiece model file says, normalization included.
class SentencePiece {
public:
  virtual ~SentencePiece() = default;

  // A run of characters that the model does not know is one piece: as it stands by the library, the unknown
  // token by our own parts.
  virtual void append_pieces(std::string_view escaped, std::vector<std::string>& pieces) const = 0;
};

using SentencePiecePtr = std::unique_ptr<const SentencePiece>;

// By the sentencepiece library; in a build without it, by the parts that read such models from elsewhere.
Result<SentencePiecePtr> make_sentence_piece(const SentencePieceFile& file);
Result<SentencePiecePtr> make_own_sentence_piece(const SentencePieceFile& file);

// A model whose ids are those that `vocabulary`, which must outlive it, has for the pieces. With `codes`, a
// ">>fra<<" at the start of the caller's text is one piece: the language that Marian translates into.
ModelPtr make_sentence_piece_model(SentencePiecePtr pieces, const Vocabulary& vocabulary, uint32_t unknown,
                                   bool codes);

} // namespace pumice::text
