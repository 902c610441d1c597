#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace pumice::text {

// The contents of a SentencePiece model file (spiece.model, source.spm, ...), parsed and checked. The check
// comes before the sentencepiece library sees the file, because the library trusts the character map and
// aborts the process on some other errors.
struct SentencePieceFile {
  enum class Kind : int32_t { unigram = 1, bpe = 2, word = 3, character = 4 };
  enum class Type : int32_t { normal = 1, unknown = 2, control = 3, user_defined = 4, unused = 5, byte = 6 };
  struct Piece {
    std::string_view text;
    float score = 0;
    Type type = Type::normal;
  };

  std::string file; // for error messages
  std::string bytes;
  std::vector<Piece> pieces; // by id
  uint32_t unknown = 0;      // the id of the unknown piece
  Kind kind = Kind::unigram;
  std::string_view character_map; // may be empty
  bool add_prefix = true;         // a space before every text
  bool remove_extra_spaces = true;

  SentencePieceFile() = default;
  SentencePieceFile(SentencePieceFile&&) = delete; // the views point into `bytes`
};

Result<std::unique_ptr<const SentencePieceFile>> parse_sentence_piece(std::string bytes, std::string file);

} // namespace pumice::text
