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

// What `pumice generate` does the same for decoders and for encoder-decoders.
namespace pumice::command {

struct GenerateOptions {
  std::string model;
  std::vector<std::string> ids; // of these three, one is given
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

// A prompt, and what came after it.
struct Text {
  std::string source; // for messages
  std::vector<uint32_t> prompt;
  std::vector<uint32_t> ids;
  std::vector<TokenLogProbabilities> log_probabilities; // of ids, where asked for
  std::optional<uint32_t> end;                          // the token that ended it, which is not in ids
};

// Those of --ids and --prompt.
Result<std::vector<Text>> read_prompts(const GenerateOptions& options, const MaybeTokenizer& tokenizer);

// Writes `generated_ids` [texts, tokens], with what ended each text, filled up with the padding token.
Status write_generated(const std::string& path, std::vector<std::vector<uint32_t>> texts,
                       const ModelFile& model);

// Of models with an encoder.
Status generate_from_inputs(const GenerateOptions& options, ModelFile file, const ModelShape& shape,
                            const MaybeTokenizer& tokenizer);

} // namespace pumice::command
