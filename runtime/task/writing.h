#pragma once

#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "generate/encoder_decoder.h"
#include "task/option_names.h"
#include "text/tokenizer.h"

// Writing a text for each input with an encoder and a decoder: translations and captions.
namespace pumice {

// The options of beam search. Those that are not given come from the model's settings.
struct BeamOptions {
  std::optional<uint32_t> beams;
  std::optional<float> length_penalty;
  std::optional<EarlyStopping> early_stopping;
  std::optional<uint32_t> no_repeat_ngram;
  uint32_t hypotheses = 1; // texts of each input, best first

  bool given() const {
    return beams || length_penalty || early_stopping || no_repeat_ngram || hypotheses > 1;
  }
  // Writes the given options into a model's settings. Error: invalid_argument for more hypotheses than beams.
  Status apply(GenerationConfig& config, const OptionNames& names) const;
};

struct WritingOptions {
  BeamOptions beams;
  SamplingParams sampling;      // used without beams
  uint32_t max_tokens = 0;      // of each text; 0: as the model's settings say, or as many as fit
  uint32_t sequences = 16;      // texts that are generated at the same time; each beam counts as one
  uint32_t inputs = UINT32_MAX; // and most inputs that run at the same time
  uint32_t input_tokens = 0;    // most tokens of an input; 0: as many as the model reads
  uint32_t batch_tokens = 2048; // most tokens that the encoder reads in one step, but for one long input
  bool scores = false;          // texts have scores without beams, too
};

// The model's settings, overridden by the options that were given.
Result<GenerationOptions> generation_options(const WritingOptions& options, GenerationConfig config,
                                             const OptionNames& names);
// Number of inputs that run at a time.
uint32_t inputs_at_a_time(const WritingOptions& options, const GenerationConfig& config);
// `input_tokens`: most tokens of one input.
EncoderDecoderOptions writer_options(const WritingOptions& options, const GenerationConfig& config,
                                     const ModelShape& shape, uint32_t input_tokens);

// A word of the source and one of the text, counted from 0. White space separates words, and a Chinese
// character is a word of its own.
using WordLink = std::pair<uint32_t, uint32_t>;

// A generated text, or several that were joined.
struct WrittenText {
  std::string text;             // without special tokens and the token that ended it
  std::vector<uint32_t> tokens; // that one included
  float score = 0;
  std::optional<std::vector<WordLink>> links = {}; // to words of the source, if they were asked for
};
WrittenText written_text(const Hypothesis& written, const GenerationConfig& config,
                         const Tokenizer& tokenizer);
std::vector<WrittenText> written_texts(std::span<const Hypothesis> written, const GenerationConfig& config,
                                       const Tokenizer& tokenizer);

} // namespace pumice
