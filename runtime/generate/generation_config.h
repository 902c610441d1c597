#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "io/model_file.h"

namespace pumice {

// When beam search ends (transformers' early_stopping).
enum class EarlyStopping {
  no,    // once the best beam as it stands is worse than every finished text
  yes,   // once as many texts as beams are finished
  never, // once no beam could become better than a finished text, however long it gets
};

// How a model's decoder is meant to be used: generation_config.json beside its weights, config.json where
// that is silent, or a GGUF file's keys.
struct GenerationConfig {
  std::vector<uint32_t> prompt;           // what the decoder begins with
  std::vector<uint32_t> ends;             // tokens that end a text
  std::optional<uint32_t> forced_first;   // comes right after the prompt
  std::optional<uint32_t> forced_last;    // comes where the text has reached max_tokens
  std::vector<uint32_t> suppressed;       // never come
  std::vector<uint32_t> suppressed_first; // do not come right after the prompt
  uint32_t min_tokens = 0;                // after the prompt, before an end
  uint32_t max_tokens = 0;                // after the prompt; 0: as many as fit
  uint32_t told_tokens = 0; // after the prompt, but not counted in a text's length: a rule gives them
  uint32_t beams = 1;
  float length_penalty = 1; // a text's score is divided by its length to this power
  EarlyStopping early_stopping = EarlyStopping::no;
  float repetition_penalty =
      1; // scores of tokens that have come are divided by this, or multiplied below zero
  uint32_t no_repeat_ngram = 0; // no run of so many tokens comes twice; 0: off
  // Of speech.
  bool multilingual = true;             // where there are tokens for languages
  uint32_t latest_first_timestamp = 50; // timestamps after the first one of a window, that it may begin with
};

// `vocabulary` is the decoder's: ids outside it are refused.
Result<GenerationConfig> read_generation_config(const ModelFile& file, uint32_t vocabulary);

} // namespace pumice
