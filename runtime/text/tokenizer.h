#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace pumice {

class ModelFolder;     // io/model_folder.h
struct TokenizerParts; // text/tokenizer_parts.h
class Detokenizer;     // text/detokenizer.h

// Turns text into token ids and back. Immutable once made, so one may be shared between threads.
//
// A tokenizer is a sequence of steps. Each has a file of its own in text/; text/formats/ reads them from
// files.
//   encode: added tokens → normalizer → pre-tokenizer → model → post-processor
//   decode: ids → pieces → decoder
//
// Text need not be valid UTF-8. Bytes that are not part of a character are passed through: a vocabulary with
// byte-level tokens or byte fallback gives the ids of those bytes, any other its unknown token (or nothing).
class Tokenizer {
public:
  // A GGUF file's vocabulary. The caller fills it in, so that text/ does not depend on the reader of GGUF
  // files. The views must stay valid only during the call of from_gguf(). Only "llama" and "t5" need
  // `scores`, only "gpt2" and "gemma4" need `merges`. Without `types`, every token is a normal one.
  struct GgufVocabulary {
    std::string file;                     // for error messages
    std::string model;                    // tokenizer.ggml.model: "llama", "gpt2", "gemma4", "bert" or "t5"
    std::string pre;                      // tokenizer.ggml.pre: "default", "gpt-2", "llama-bpe", "qwen2", ...
    std::vector<std::string_view> tokens; // tokenizer.ggml.tokens
    std::vector<float> scores;            // tokenizer.ggml.scores
    std::vector<int32_t> types;           // tokenizer.ggml.token_type
    std::vector<std::string_view> merges; // tokenizer.ggml.merges
    std::optional<uint32_t> bos, eos, unknown;
    std::optional<bool> add_bos; // if absent: as is usual for this kind of vocabulary
    std::optional<bool> add_eos;
    std::optional<bool> lowercase; // tokenizer.ggml.normalizer.lowercase; only for "bert" and words in "gpt2"
    bool add_space_prefix = true;  // for "llama" and "t5"
    // Only for "t5":
    std::string_view character_map; // tokenizer.ggml.precompiled_charsmap
    bool remove_extra_whitespaces = false;
    // Only for "bert": the token that ends a text; bos begins it. If absent, "[CLS]" and "[SEP]" are used.
    std::optional<uint32_t> separator;
  };

  // Reads a Hugging Face tokenizer.json, or the tokenizer of a model's folder: its tokenizer.json or else the
  // older files (vocab.txt; vocab.json and merges.txt; spiece.model; source.spm, target.spm and vocab.json,
  // where the source language's rules cut text and the target's join it).
  static Result<std::shared_ptr<const Tokenizer>> load(const std::filesystem::path& at);
  static Result<std::shared_ptr<const Tokenizer>> load(const ModelFolder& folder);

  // The same from memory; `file` is only for error messages.
  static Result<std::shared_ptr<const Tokenizer>> parse_json(std::string_view json, std::string file);

  static Result<std::shared_ptr<const Tokenizer>> from_gguf(const GgufVocabulary& vocabulary);

  // Byte-pair tokens without a list of merges, as whisper.cpp's files and tiktoken's have them: of the
  // adjacent pairs that form a word, the one with the least id is joined. The views must stay valid only
  // during the call.
  struct RankedVocabulary {
    std::string file;                        // for error messages
    std::span<const std::string_view> words; // their bytes, by id
    std::span<const std::string> special;    // the tokens with the next ids
    // Of the special tokens, those around a text.
    std::vector<uint32_t> before, after;
  };
  static Result<std::shared_ptr<const Tokenizer>> from_ranks(const RankedVocabulary& vocabulary);

  ~Tokenizer();
  Tokenizer(const Tokenizer&) = delete;
  Tokenizer& operator=(const Tokenizer&) = delete;

  // Whether special tokens that a text spells ("</s>") become those tokens, or stay text.
  enum class SpecialTokens { recognised, as_text };

  // The ids of `text`. With `add_special`, the tokens around a text (BOS, CLS, SEP, EOS ...) are added.
  // Special tokens that are spelled out in the text are recognised in both cases.
  std::vector<uint32_t> encode(std::string_view text, bool add_special) const;

  struct Part {
    std::string_view text;
    SpecialTokens special = SpecialTokens::recognised;
  };
  // The ids of one text that consists of parts. A part that is text never gives a special token, except the
  // unknown one.
  std::vector<uint32_t> encode(std::span<const Part> parts, bool add_special) const;

  // The ids of a word or phrase as a model writes it within a text: after a space where its script has
  // spaces, and by the rules of the language that is translated into where those are others (Marian). Errors:
  // a file of such rules that cannot be used; it is only looked into here.
  Result<std::vector<uint32_t>> encode_within(std::string_view phrase) const;

  // Ids, and for each id its token type: which of two texts it belongs to, for models with type embeddings.
  struct Encoding {
    std::vector<uint32_t> ids;
    std::vector<uint32_t> types;
    size_t begin = 0; // the first token of the text, or of the second of two
  };
  static constexpr size_t kNoLimit = SIZE_MAX;

  // A text with its special tokens, together at most `limit` tokens: the end of the text is cut off. If the
  // special tokens alone exceed the limit, only they are returned.
  Encoding encode_limited(std::string_view text, size_t limit) const;
  Encoding encode_limited(std::span<const Part> parts, size_t limit) const;

  // Two texts as one input, with the special tokens around and between them, together at most `limit` tokens.
  // The longer text is cut first, then both equally.
  Encoding encode_pair(std::string_view first, std::string_view second, size_t limit = kNoLimit) const;

  // A token, and the bytes of a text that it stands for: whole characters without white space around them,
  // none where it stands for white space alone.
  struct PlacedToken {
    uint32_t id = 0;
    uint32_t word = 0; // counts the pieces that no token reaches over
    size_t begin = 0, end = 0;
  };
  // The tokens of valid UTF-8 without special tokens around, each with its place.
  std::vector<PlacedToken> encode_placed(std::string_view text) const;
  // The ids of a text, or of two, with the special tokens around and between them.
  Encoding around(std::span<const uint32_t> ids) const;
  Encoding around(std::span<const uint32_t> first, std::span<const uint32_t> second) const;

  // The text of `ids`, always valid UTF-8: bytes that form no character become U+FFFD. Unknown ids are
  // skipped; special tokens are skipped too, unless `keep_special`.
  std::string decode(std::span<const uint32_t> ids, bool keep_special) const;

  // One more than the highest id. Unused ids below it count.
  uint32_t vocabulary_size() const;

  // The tokens that begin and end a text. A tokenizer.json does not name them: then they are the tokens that
  // its post-processor puts around a text or else the added tokens with the usual names ("<s>", "</s>",
  // "<|begin_of_text|>", ...). If the model's config names them, prefer those.
  std::optional<uint32_t> bos() const;
  std::optional<uint32_t> eos() const;

  // Whether the token is special (BOS, padding, a chat role ...) and not text.
  bool is_special(uint32_t id) const;

  // The token as the vocabulary spells it ("Ġhello", "▁hello", "<0x0A>"); empty for an id it does not have.
  std::string_view piece(uint32_t id) const;

  // Of each id, the bytes that the token adds to a text that has begun, be they whole characters or not;
  // empty for an id that the vocabulary does not have.
  std::vector<std::string> bytes_within() const;

  // The id of the token with this spelling, special or not.
  std::optional<uint32_t> find(std::string_view piece) const;

private:
  friend class StreamDecoder;
  explicit Tokenizer(std::unique_ptr<const TokenizerParts> parts);
  std::unique_ptr<const TokenizerParts> parts_;
};

// Decodes ids one at a time. The results of push() and flush(), joined, equal Tokenizer::decode() of all the
// ids. Only whole characters are returned: an incomplete character is held back until the rest of it arrives.
class StreamDecoder {
public:
  explicit StreamDecoder(std::shared_ptr<const Tokenizer> tokenizer, bool keep_special = false);
  ~StreamDecoder();
  StreamDecoder(StreamDecoder&&) noexcept;
  StreamDecoder& operator=(StreamDecoder&&) noexcept;

  std::string push(uint32_t id);

  // The rest of the text, with U+FFFD for an incomplete character. The decoder then starts a new text.
  std::string flush();

private:
  std::shared_ptr<const Tokenizer> tokenizer_;
  std::unique_ptr<Detokenizer> stream_;
  bool keep_special_;
};

} // namespace pumice
