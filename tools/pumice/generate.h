#pragma once

#include <optional>
#include <string>
#include <vector>

#include "beam_options.h"
#include "json_output.h"
#include "kernel/sampling/sampling.h"
#include "open_device.h"
#include "options.h"
#include "session_file.h"
#include "text/tokenizer.h"

// The parts of `pumice generate` that decoders and encoder-decoders share.
namespace pumice::command {

// --count -1: until the text ends or the context is full.
inline constexpr uint32_t no_token_limit = UINT32_MAX;

struct GenerateOptions {
  std::string model;
  std::vector<std::string> ids; // only one of ids, prompts, files, requests and inputs is given
  std::vector<std::string> prompts;
  std::vector<std::string> files;
  std::string requests;
  std::string inputs;
  std::string outputs;
  uint32_t count = 12;
  CLI::Option* count_option = nullptr;
  uint32_t samples = 1;
  uint32_t sequences = 16;
  uint32_t batch_tokens = 0;
  std::vector<uint32_t> stop_ids;
  std::vector<std::string> stops;
  bool ignore_end = false;
  bool json = false;
  bool json_lines = false;
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
  Json id;              // of the request
  size_t index = 0;     // of the prompt
  uint32_t sample = 0;  // among the texts of the prompt
  uint32_t samples = 1; // number of those
  uint32_t count = 0;   // most new tokens
  std::vector<std::string> stops;
  SamplingParams sampling = {};
  std::optional<uint64_t> seed = {}; // of its first sample, if the request has one

  std::vector<uint32_t> ids = {};
  std::string text = {}; // of `ids`, up to a stop string; only with a tokenizer
  std::vector<TokenLogProbabilities> log_probabilities = {}; // one for each of `ids`, if --logprobs is given
  std::optional<uint32_t> end = {};                          // the token that ended it, not in `ids`
  const char* finish_reason = nullptr;                       // null: it has not ended
};

// The prompts of --ids, --prompt, --file and --requests, with what the options say of each.
Result<std::vector<Text>> read_prompts(const GenerateOptions& options, const MaybeTokenizer& tokenizer);
// The prompts of --inputs.
Result<std::vector<Text>> read_prompt_tensors(const GenerateOptions& options);
// Each prompt as many times as it has samples. The k-th text of a prompt gets the k-th seed after the first.
std::vector<Text> with_samples(std::vector<Text> prompts, uint64_t seed);

// Prints texts that have ended, in their order: each as soon as those before it have ended too, or with
// --json all of them at the end.
class TextPrinter {
public:
  TextPrinter(const GenerateOptions& options, const OpenedDevice& device, bool has_text)
      : options_(options), device_(device), has_text_(has_text) {}

  // Whether print() would print something.
  bool ready(std::span<const Text> texts) const;
  void print(std::span<const Text> texts);
  void finish(std::span<const Text> texts) const;

private:
  Json json_of(const Text& text) const;
  bool as_lines() const { return options_.json_lines || !options_.requests.empty(); }

  const GenerateOptions& options_;
  const OpenedDevice& device_;
  bool has_text_;
  size_t printed_ = 0;
};

// Writes `generated_ids` [texts, tokens], including the token that ended each text, and padded with the
// model's padding token.
Status write_generated(const std::string& path, std::vector<std::vector<uint32_t>> texts,
                       const ModelFile& model);

// `pumice generate` for models with an encoder.
Status generate_from_inputs(const GenerateOptions& options, ModelFile file, const ModelShape& shape,
                            const MaybeTokenizer& tokenizer);

} // namespace pumice::command
