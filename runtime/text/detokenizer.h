#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/unicode/pre_tokenizer.h"
#include "text/unicode/unicode.h"

namespace pumice {

namespace text {

// Receives tokens and passes text on, at once or later. The same stages decode whole texts and streams. A
// token may come in several calls of write(); end_token() follows the last. A stage that joins tokens does
// not pass on end_token() until finish(), so that the next stage sees one long token.
class DecoderSink {
public:
  virtual ~DecoderSink() = default;
  virtual void write(std::string_view text) = 0;
  virtual void end_token() = 0;
  virtual void finish() = 0; // ends the text: passes on what was held back, and resets
};

// One step from tokens to text, as the tokenizer's file describes it. Immutable; begin() makes the state for
// one text.
class DecoderStep {
public:
  virtual ~DecoderStep() = default;
  virtual std::unique_ptr<DecoderSink> begin(DecoderSink& next) const = 0;

  // An upper limit of how many times longer a token can become; see Normalizer::growth.
  virtual double growth() const { return 1; }

  // The bytes of a token where this step makes bytes of it, be they whole characters or not.
  virtual std::optional<std::string> bytes(std::string_view) const { return std::nullopt; }
};

using DecoderPtr = std::unique_ptr<const DecoderStep>;

DecoderPtr make_byte_level_decoder();
DecoderPtr make_byte_fallback_decoder(); // "<0x0A>" becomes that byte; bytes form characters
DecoderPtr make_metaspace_decoder(std::string replacement, PrependScheme scheme);
DecoderPtr make_replace_decoder(std::string find, std::string with);
DecoderPtr make_replace_decoder(Regex find, std::string with);
DecoderPtr make_strip_decoder(char32_t character, size_t start, size_t stop); // of every token
DecoderPtr make_fuse_decoder();
// Tokens that begin with the prefix ("##") are joined to the token before, all others follow a space. With
// `cleanup`, spaces before punctuation marks and within English contractions are removed.
DecoderPtr make_wordpiece_decoder(std::string prefix, bool cleanup);
DecoderPtr make_suffix_decoder(std::string suffix); // the suffix ("</w>") becomes a space, except the last
DecoderPtr make_spaced_decoder();                   // a space between tokens: for files without a decoder

} // namespace text

// A sequence of decoders that decodes one text to valid UTF-8.
class Detokenizer {
public:
  explicit Detokenizer(const std::vector<text::DecoderPtr>& steps);
  void push(std::string_view token);
  void finish();

  // Returns the text so far and removes it.
  std::string take() { return std::exchange(out_.text, {}); }

private:
  struct Output final : text::DecoderSink {
    std::string text;
    text::Utf8Assembler assembler{text::Utf8Assembler::Broken::each_sequence};
    void write(std::string_view bytes) override { assembler.push(bytes, text); }
    void end_token() override {}
    void finish() override { assembler.finish(text); }
  };

  Output out_;
  // The last step first: each stage writes to the one before it in the list.
  std::vector<std::unique_ptr<text::DecoderSink>> stages_;
  text::DecoderSink* head_;
};

} // namespace pumice
