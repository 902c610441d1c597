#pragma once

#include <memory>
#include <string>
#include <vector>

#include "text/formats/sentence_piece_file.h"
#include "text/formats/tokenizer_folder.h"

namespace pumice::text {

// What the readers of folders with a SentencePiece model file share.

AddedToken make_added_token(std::string content, uint32_t id, bool special);

// Completes a tokenizer whose vocabulary and post-processor are there: `encoding` says how text is cut,
// `decoding` how pieces are joined.
Result<std::unique_ptr<TokenizerParts>> finish_sentence_piece(std::unique_ptr<TokenizerParts> parts,
                                                              std::vector<AddedToken> added,
                                                              const SentencePieceFile& encoding,
                                                              const SentencePieceFile& decoding,
                                                              uint32_t unknown, bool language_codes);

// The vocabulary as fairseq numbers it: four special tokens, of which <s> is 0, <pad> 1, </s> 2 and <unk> 3,
// then the file's pieces without its first three, then the tokens of `more`, which are special.
struct FairseqVocabulary {
  std::unique_ptr<TokenizerParts> parts;
  std::vector<AddedToken> added;
};
Result<FairseqVocabulary> read_fairseq_vocabulary(const SentencePieceFile& file,
                                                  const std::vector<std::string>& more);

// Translators of many languages, and PEGASUS: families of FolderSettings::family().
bool is_translator_family(const std::string& family);
Result<std::unique_ptr<TokenizerParts>>
read_translator_folder(const FolderSettings& settings, const char* model_file, const std::string& family);

} // namespace pumice::text
