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

struct TokenizerParts; // text/tokenizer_parts.h
class DecoderStream;   // text/decoder.h

// Turns text into token ids and back. Immutable once made, so one may be shared between threads.
//
// A tokenizer is a row of steps, each in a file of its own under text/ (and what reads them in
// text/formats/):
//   encode: added tokens → normalizer → pre-tokenizer → model → post-processor
//   decode: ids → pieces → decoder
//
// Text need not be valid UTF-8. Bytes that are not part of a character are carried through as bytes: a
// byte-level vocabulary or one with byte fallback gives them the ids of those bytes, any other its unknown
// token (or nothing).
class Tokenizer {
public:
  // A GGUF file's own vocabulary, taken apart by the caller so that text/ does not depend on io/. The views
  // need to live only as long as the call to from_gguf. Only "llama" and "t5" need `scores`, only "gpt2"
  // `merges`; without `types` every token is a normal one.
  struct GgufVocabulary {
    std::string file;                     // for error messages
    std::string model;                    // tokenizer.ggml.model: "llama", "gpt2", "bert" or "t5"
    std::string pre;                      // tokenizer.ggml.pre: "default", "gpt-2", "llama-bpe", "qwen2", ...
    std::vector<std::string_view> tokens; // tokenizer.ggml.tokens
    std::vector<float> scores;            // tokenizer.ggml.scores
    std::vector<int32_t> types;           // tokenizer.ggml.token_type
    std::vector<std::string_view> merges; // tokenizer.ggml.merges
    std::optional<uint32_t> bos, eos, unknown;
    bool add_bos = false;
    bool add_eos = false;
    bool add_space_prefix = true; // "llama" and "t5"
    // "t5" only
    std::string_view character_map; // tokenizer.ggml.precompiled_charsmap
    bool remove_extra_whitespaces = false;
    // "bert" only: what ends a text, after the beginning, which is bos. Failing that, "[CLS]" and "[SEP]".
    std::optional<uint32_t> separator;
  };

  // Reads a Hugging Face tokenizer.json, or what a model's folder holds: a tokenizer.json, else the files
  // that came before it (vocab.txt; vocab.json and merges.txt; spiece.model; source.spm, target.spm and
  // vocab.json, where text is cut by one language's rules and put together by the other's).
  static Result<std::shared_ptr<const Tokenizer>> load(const std::filesystem::path& at);

  // The same from memory; `file` is only for error messages.
  static Result<std::shared_ptr<const Tokenizer>> parse_json(std::string_view json, std::string file);

  static Result<std::shared_ptr<const Tokenizer>> from_gguf(const GgufVocabulary& vocabulary);

  ~Tokenizer();
  Tokenizer(const Tokenizer&) = delete;
  Tokenizer& operator=(const Tokenizer&) = delete;

  // The ids of `text`. With `add_special`, the tokens the vocabulary puts around a text (BOS, CLS, SEP, EOS
  // ...) are added. Special tokens spelled out in the text are recognised either way.
  std::vector<uint32_t> encode(std::string_view text, bool add_special) const;

  // Ids and, beside each, its token type: which of two texts it counts to, as models with type embeddings
  // want it.
  struct Encoding {
    std::vector<uint32_t> ids;
    std::vector<uint32_t> types;
  };
  static constexpr size_t kNoLimit = SIZE_MAX;

  // A text with its special tokens, of at most `limit` tokens: it is the text whose end is cut off. Where
  // even the special tokens are more than that, they are all there is.
  Encoding encode_limited(std::string_view text, size_t limit) const;

  // Two texts as one input, with what the vocabulary puts around and between them, of at most `limit` tokens:
  // the longer text is cut first, then both alike.
  Encoding encode_pair(std::string_view first, std::string_view second, size_t limit = kNoLimit) const;

  // The text of `ids`, always valid UTF-8: bytes that make no character become U+FFFD. Ids the vocabulary
  // does not have are skipped; special tokens are skipped too unless `keep_special`.
  std::string decode(std::span<const uint32_t> ids, bool keep_special) const;

  // One more than the highest id, which counts the holes between ids, if there are any.
  uint32_t vocabulary_size() const;

  // The token that begins a text and the one that ends it. tokenizer.json does not name them: there they are
  // what its post-processor puts around a text, and failing that the added tokens with the customary names
  // ("<s>", "</s>",
  // "<|begin_of_text|>", ...). A model's own config knows better.
  std::optional<uint32_t> bos() const;
  std::optional<uint32_t> eos() const;

  // Whether the token is a mark (BOS, padding, a chat role ...) rather than text.
  bool is_special(uint32_t id) const;

  // The token as the vocabulary spells it ("Ġhello", "▁hello", "<0x0A>"); empty for an id it does not have.
  std::string_view piece(uint32_t id) const;

  // The id spelled so, special or not.
  std::optional<uint32_t> find(std::string_view piece) const;

private:
  friend class StreamDecoder;
  explicit Tokenizer(std::unique_ptr<const TokenizerParts> parts);
  std::unique_ptr<const TokenizerParts> parts_;
};

// Decodes ids one at a time. What push() and flush() return, joined, is what Tokenizer::decode gives for all
// the ids together. Only whole characters are returned: half a character is held back until the rest of it
// comes.
class StreamDecoder {
public:
  explicit StreamDecoder(std::shared_ptr<const Tokenizer> tokenizer, bool keep_special = false);
  ~StreamDecoder();
  StreamDecoder(StreamDecoder&&) noexcept;
  StreamDecoder& operator=(StreamDecoder&&) noexcept;

  std::string push(uint32_t id);

  // The rest, with U+FFFD for a character that never got whole. The decoder then starts a new text.
  std::string flush();

private:
  std::shared_ptr<const Tokenizer> tokenizer_;
  std::unique_ptr<DecoderStream> stream_;
  bool keep_special_;
};

} // namespace pumice
