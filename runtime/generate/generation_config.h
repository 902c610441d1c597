#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "io/model_file.h"

namespace pumice {

// When beam search ends (transformers' early_stopping).
enum class EarlyStopping {
  no,    // once the best beam, with its present score, is worse than every finished text
  yes,   // once as many texts as beams are finished
  never, // once no beam could become better than a finished text, however long it gets
};

// How a model's decoder is to be used: from generation_config.json beside its weights, and for missing fields
// from config.json; or from the keys of a GGUF file.
struct GenerationConfig {
  std::vector<uint32_t> prompt;           // what the decoder begins with
  std::vector<uint32_t> ends;             // tokens that end a text
  std::optional<uint32_t> forced_first;   // forced to be the first token after the prompt
  std::optional<uint32_t> forced_last;    // forced to be the last token if the text reaches max_tokens
  std::vector<uint32_t> suppressed;       // never chosen
  std::vector<uint32_t> suppressed_first; // not chosen as the first token after the prompt
  uint32_t min_tokens = 0;                // before an end token is allowed, not counting the prompt
  uint32_t max_tokens = 0;                // after the prompt; 0: as many as fit
  uint32_t forced_tokens =
      0; // right after the prompt, forced by a rule; they do not count in a text's length
  uint32_t beams = 1;
  float length_penalty = 1; // a text's score is divided by its length to this power
  EarlyStopping early_stopping = EarlyStopping::no;
  float repetition_penalty =
      1; // positive scores of tokens that occur already are divided by this, negative ones multiplied
  uint32_t no_repeat_ngram = 0; // no sequence of so many tokens occurs twice; 0: off
  // For speech models.
  bool multilingual = true; // the model has tokens for languages
  uint32_t latest_first_timestamp =
      50; // the latest timestamp that a window may begin with, in steps after the first one
};

// `vocabulary` is the size of the decoder's vocabulary. Ids outside it are an error.
Result<GenerationConfig> read_generation_config(const ModelFile& file, uint32_t vocabulary);

} // namespace pumice
