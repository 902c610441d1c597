#pragma once

#include <optional>
#include <string>
#include <vector>

#include "beam_options.h"
#include "kernel/sampling/sampling.h"
#include "open_device.h"
#include "options.h"
#include "session_file.h"
#include "text/tokenizer.h"

// The parts of `pumice generate` that decoders and encoder-decoders share.
namespace pumice::command {

struct GenerateOptions {
  std::string model;
  std::vector<std::string> ids; // only one of ids, prompts and inputs is given
  std::vector<std::string> prompts;
  std::string inputs;
  std::string outputs;
  uint32_t count = 12;
  CLI::Option* count_option = nullptr;
  uint32_t sequences = 16;
  uint32_t batch_tokens = 0;
  std::vector<uint32_t> stops;
  bool ignore_end = false;
  bool json = false;
  uint32_t log_probabilities = 0; // 0: none
  SessionFile session;
  DeviceOptions device;
  SizeOptions size;
  SamplingOptions sampling;
  BeamOptions beams;
};

using MaybeTokenizer = Result<std::shared_ptr<const Tokenizer>>;

// A prompt and its continuation.
struct Text {
  std::string source; // for messages
  std::vector<uint32_t> prompt;
  std::vector<uint32_t> ids;
  std::vector<TokenLogProbabilities> log_probabilities; // one for each of `ids`, if --logprobs is given
  std::optional<uint32_t> end; // the token that ended the text, which is not in `ids`
};

// The prompts of --ids and --prompt.
Result<std::vector<Text>> read_prompts(const GenerateOptions& options, const MaybeTokenizer& tokenizer);

// Writes `generated_ids` [texts, tokens], including the token that ended each text, and padded with the
// model's padding token.
Status write_generated(const std::string& path, std::vector<std::vector<uint32_t>> texts,
                       const ModelFile& model);

// `pumice generate` for models with an encoder.
Status generate_from_inputs(const GenerateOptions& options, ModelFile file, const ModelShape& shape,
                            const MaybeTokenizer& tokenizer);

} // namespace pumice::command
