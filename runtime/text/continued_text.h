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
    const std::span<const uint32_t> end = end_of(*tokenizer, prompt);
    size_t decoded = 0;
    for (uint32_t id : end) decoded += decoder_.push(id).size();
    const size_t whole = tokenizer->decode(end, false).size();
    skip_ = whole > decoded ? whole - decoded : 0; // text of the prompt that the decoder holds back
  }

  std::string push(uint32_t id) { return without_prompt(decoder_.push(id)); }
  std::string flush() { return without_prompt(decoder_.flush()); }

private:
  // So much of a prompt's end that what follows is decoded as behind all of it.
  static std::span<const uint32_t> end_of(const Tokenizer& tokenizer, std::span<const uint32_t> prompt) {
    constexpr size_t enough = 16; // tokens that are text: some for a whole character and the words around it
    size_t begin = prompt.size();
    for (size_t said = 0; begin > 0 && said < enough; --begin) {
      const uint32_t id = prompt[begin - 1];
      said += !tokenizer.is_special(id) && !tokenizer.piece(id).empty();
    }
    return prompt.subspan(begin);
  }

  std::string without_prompt(std::string text) {
    const size_t cut = std::min(skip_, text.size());
    skip_ -= cut;
    return text.substr(cut);
  }

  StreamDecoder decoder_;
  size_t skip_ = 0;
};

} // namespace pumice
