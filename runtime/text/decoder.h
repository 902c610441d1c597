#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/pre_tokenizer.h"
#include "text/unicode.h"

namespace pumice {

namespace text {

// Takes tokens and passes on text, at once or later: so one definition serves whole texts and streams alike.
// A token may come in several parts; end_token() is called after the last. A stage that joins tokens passes
// on no end until finish(), and what follows it sees one long token.
class DecoderSink {
public:
  virtual ~DecoderSink() = default;
  virtual void part(std::string_view text) = 0;
  virtual void end_token() = 0;
  virtual void finish() = 0; // the end of the text: passes on what was held back, and begins anew
};

// One step from tokens to text, as the file describes it; immutable. begin() makes its state for one text.
class Decoder {
public:
  virtual ~Decoder() = default;
  virtual std::unique_ptr<DecoderSink> begin(DecoderSink& next) const = 0;

  // At most how many times longer a token may become; see Normalizer::growth.
  virtual double growth() const { return 1; }
};

using DecoderPtr = std::unique_ptr<const Decoder>;

DecoderPtr make_byte_level_decoder();
DecoderPtr make_byte_fallback_decoder(); // "<0x0A>" → that byte; bytes in a row make characters
DecoderPtr make_metaspace_decoder(std::string replacement, PrependScheme scheme);
DecoderPtr make_replace_decoder(std::string find, std::string with);
DecoderPtr make_replace_decoder(Regex find, std::string with);
DecoderPtr make_strip_decoder(char32_t character, size_t start, size_t stop); // of every token
DecoderPtr make_fuse_decoder();
// Tokens that begin with the prefix ("##") go on where the one before ended, all others after a space. With
// `cleanup`, spaces before punctuation marks and within English contractions go.
DecoderPtr make_wordpiece_decoder(std::string prefix, bool cleanup);
DecoderPtr make_suffix_decoder(std::string suffix); // a word's end ("</w>") is a space, but for the last one
DecoderPtr make_spaced_decoder(); // a space between tokens: what there is where a file names no decoder

} // namespace text

// A row of decoders at work on one text, and valid UTF-8 at the end of it.
class DecoderStream {
public:
  explicit DecoderStream(const std::vector<text::DecoderPtr>& steps);
  void push(std::string_view token);
  void finish();

  // The text so far, taken away.
  std::string take() { return std::exchange(out_.text, {}); }

private:
  struct Output final : text::DecoderSink {
    std::string text;
    text::Utf8Assembler assembler{text::Utf8Assembler::Broken::each_sequence};
    void part(std::string_view bytes) override { assembler.push(bytes, text); }
    void end_token() override {}
    void finish() override { assembler.finish(text); }
  };

  Output out_;
  std::vector<std::unique_ptr<text::DecoderSink>>
      stages_; // the last step first, each writes to the one before
  text::DecoderSink* head_;
};

} // namespace pumice
