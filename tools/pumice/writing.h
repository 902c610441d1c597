#pragma once

#include "beam_options.h"
#include "generate/encoder_decoder.h"
#include "json_output.h"
#include "options.h"
#include "text/tokenizer.h"

// What subcommands share that let an encoder-decoder write a text about each of their inputs.
namespace pumice::command {

struct WritingOptions {
  uint32_t count = 0;      // most tokens of a text; 0: as the model's settings say
  uint32_t sequences = 16; // that are written at a time, each beam being one
  uint32_t batch_tokens = 0;
  bool json = false;
  BeamOptions beams;
  SamplingOptions sampling;
  LoadOptions load;
  DeviceOptions device;
};
void add_writing_options(CLI::App& app, WritingOptions& options);

// A model's own settings with what was given instead.
Result<GenerationOptions> writing_options(const WritingOptions& options, GenerationConfig config);

// Inputs that are worked on at a time.
uint32_t inputs_at_a_time(const WritingOptions& options, const GenerationConfig& config);
// `input_tokens` is the most that one input has.
Result<std::unique_ptr<EncoderDecoder>> create_writer(std::shared_ptr<const Model> model,
                                                      const WritingOptions& options,
                                                      const GenerationConfig& config, uint32_t input_tokens);

// Without its special tokens and the one that ended it.
std::string text_of(const Hypothesis& written, const GenerationConfig& config, const Tokenizer& tokenizer);
// A line for each text, or one with its score in front where several were asked for.
std::string lines_of(std::span<const Hypothesis> written, const GenerationOptions& options,
                     const Tokenizer& tokenizer);
// Puts the best text under "text", "tokens" and "score" (of a search), and all that were asked for under
// "hypotheses".
void add_written(Json& json, std::span<const Hypothesis> written, const GenerationOptions& options,
                 const Tokenizer& tokenizer);

// What the closing line on standard error tells.
struct WritingFigures {
  uint64_t inputs = 0, tokens = 0;
  double seconds = 0; // of generating

  void add(std::span<const std::vector<Hypothesis>> written, double seconds);
  void print(const OpenedDevice& device) const;
};

} // namespace pumice::command
