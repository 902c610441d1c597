#pragma once

#include "generate/encoder_decoder.h"
#include "loading/alignment.h"
#include "options/beam_options.h"
#include "options/options.h"
#include "output/json_output.h"
#include "text/tokenizer.h"

// Shared by the subcommands that generate a text for each input with an encoder-decoder: translate, caption.
namespace pumice::command {

struct WritingOptions {
  uint32_t count = 0;      // maximum tokens of each text; 0: from the model's settings
  uint32_t sequences = 16; // texts that are generated at the same time; each beam counts as one
  uint32_t batch_tokens = 0;
  bool json = false;
  BeamOptions beams;
  SamplingOptions sampling;
  LoadOptions load;
  DeviceOptions device;
};
void add_writing_options(CLI::App& app, WritingOptions& options);

// The model's settings, overridden by the options that were given.
Result<GenerationOptions> writing_options(const WritingOptions& options, GenerationConfig config);

// Number of inputs that are processed at the same time.
uint32_t inputs_at_a_time(const WritingOptions& options, const GenerationConfig& config);
// `input_tokens` is the maximum number of tokens of one input.
Result<std::unique_ptr<EncoderDecoder>> create_writer(std::shared_ptr<const Model> model,
                                                      const WritingOptions& options,
                                                      const GenerationConfig& config, uint32_t input_tokens);

// The text without special tokens and without the token that ended it.
std::string text_of(const Hypothesis& written, const GenerationConfig& config, const Tokenizer& tokenizer);
// A generated text, or several that were joined.
struct WrittenText {
  std::string text;
  std::vector<uint32_t> tokens;
  float score = 0;
  std::optional<std::vector<WordLink>> links = {}; // to words of the source, if they were asked for
};
WrittenText written_text(const Hypothesis& written, const GenerationConfig& config,
                         const Tokenizer& tokenizer);
std::vector<WrittenText> written_texts(std::span<const Hypothesis> written, const GenerationConfig& config,
                                       const Tokenizer& tokenizer);

// One line for each text. If several texts were asked for, each line begins with `owner`, which says whose
// text it is, if it is not empty, and the score. Links of words follow " ||| ", as other translators have it.
std::string lines_of(std::span<const WrittenText> written, const GenerationOptions& options,
                     const std::string& owner = "");
// Adds the best text as "text", "tokens" and "score". If several texts were asked for,
// adds all of them as "hypotheses".
void add_written(Json& json, std::span<const WrittenText> written, const GenerationOptions& options);

// The numbers of the last line on standard error.
struct WritingFigures {
  uint64_t inputs = 0, tokens = 0;
  double seconds = 0; // time of generating

  void add(std::span<const std::vector<Hypothesis>> written, double seconds);
  void print(const OpenedDevice& device) const;
};

} // namespace pumice::command
