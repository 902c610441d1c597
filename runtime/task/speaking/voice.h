#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "model/sound_codec.h"
#include "text/tokenizer.h"

namespace pumice {

// A voice that a model goes on with: what it has said, word by word, as OuteTTS's profiles of version 3 have
// it.
struct Voice {
  struct Word {
    std::string text;
    std::string codes; // the tokens of what is heard
  };
  std::string text;
  std::vector<Word> words;

  // Reads a profile's JSON; `name` names it in messages. `codec`: whose codes it has to have.
  static Result<Voice> parse(std::string_view text, const std::string& name, const SoundCodec& codec);
};

// Valid UTF-8 as models were trained with it: white space of any kind is a space, and quotation marks and
// dashes are those of ASCII.
std::string spoken_text(std::string_view text);

// The ids of what OuteTTS 1.0 continues with a sound of the text, in the voice if there is one. What the text
// spells is never a special token. Errors: invalid_argument for a text without words, or that is not UTF-8;
// unsupported where the vocabulary lacks a token of the prompt. `path`: of the model, for messages.
Result<std::vector<uint32_t>> speech_prompt(const Tokenizer& tokenizer, std::string_view text,
                                            const Voice* voice, const std::string& path);

// The token that ends a sound.
inline constexpr std::string_view sound_end = "<|audio_end|>";

} // namespace pumice
