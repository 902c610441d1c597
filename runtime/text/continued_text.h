#pragma once

#include <memory>
#include <span>
#include <string>

#include "text/tokenizer.h"

namespace pumice {

// Decodes the tokens that follow a prompt, whole characters only: the text that they add to the decoded
// prompt. Decoding them alone would be wrong, because a tokenizer may drop a space at the start of a text.
class ContinuedText {
public:
  ContinuedText(std::shared_ptr<const Tokenizer> tokenizer, std::span<const uint32_t> prompt)
      : decoder_(tokenizer) {
    size_t decoded = 0;
    for (uint32_t id : prompt) decoded += decoder_.push(id).size();
    const size_t whole = tokenizer->decode(prompt, false).size();
    skip_ = whole > decoded ? whole - decoded : 0; // text of the prompt that the decoder holds back
  }

  std::string push(uint32_t id) { return without_prompt(decoder_.push(id)); }
  std::string flush() { return without_prompt(decoder_.flush()); }

private:
  std::string without_prompt(std::string text) {
    const size_t cut = std::min(skip_, text.size());
    skip_ -= cut;
    return text.substr(cut);
  }

  StreamDecoder decoder_;
  size_t skip_ = 0;
};

} // namespace pumice
