#include "task/writing.h"

#include <algorithm>

#include <fmt/format.h>

#include "model/session_memory.h"

namespace pumice {

Status BeamOptions::apply(GenerationConfig& config, const OptionNames& names) const {
  if (beams) config.beams = *beams;
  if (length_penalty) config.length_penalty = *length_penalty;
  if (early_stopping) config.early_stopping = *early_stopping;
  if (no_repeat_ngram) config.no_repeat_ngram = *no_repeat_ngram;
  if (hypotheses <= config.beams) return {};
  return Error{Code::invalid_argument,
               fmt::format("{} {} needs at least as many beams, and there {} {}: raise {}", names.n_best,
                           hypotheses, config.beams == 1 ? "is" : "are", config.beams, names.beams)};
}

Result<GenerationOptions> generation_options(const WritingOptions& options, GenerationConfig config,
                                             const OptionNames& names) {
  GenerationOptions result;
  result.sampling = options.sampling;
  // With sampling, the number of beams in the model's settings does not apply: it is for greedy search.
  if (result.sampling.temperature > 0 && !options.beams.given()) config.beams = 1;
  PUMICE_CHECK(options.beams.apply(config, names));
  if (options.max_tokens) config.max_tokens = options.max_tokens;
  result.hypotheses = options.beams.hypotheses;
  if (options.scores) result.sampling.log_probabilities = 1;
  result.config = std::move(config);
  return result;
}

uint32_t inputs_at_a_time(const WritingOptions& options, const GenerationConfig& config) {
  return std::clamp(options.sequences / config.beams, 1u, options.inputs);
}

EncoderDecoderOptions writer_options(const WritingOptions& options, const GenerationConfig& config,
                                     const ModelShape& shape, uint32_t input_tokens) {
  EncoderDecoderOptions session;
  session.inputs = inputs_at_a_time(options, config);
  session.beams = config.beams;
  session.input_tokens = static_cast<uint32_t>(std::max<uint64_t>(
      input_tokens, std::min<uint64_t>(options.batch_tokens, uint64_t{session.inputs} * input_tokens)));
  // If the settings have no maximum, as many as fit.
  const uint64_t most =
      config.max_tokens ? config.prompt.size() + uint64_t{config.max_tokens} : uint64_t{default_context};
  session.output_tokens = static_cast<uint32_t>(std::min<uint64_t>(most, shape.context));
  return session;
}

WrittenText written_text(const Hypothesis& written, const GenerationConfig& config,
                         const Tokenizer& tokenizer) {
  std::span<const uint32_t> ids = written.tokens;
  if (!ids.empty() && std::ranges::count(config.ends, ids.back())) ids = ids.first(ids.size() - 1);
  return {tokenizer.decode(ids, false), written.tokens, written.score};
}

std::vector<WrittenText> written_texts(std::span<const Hypothesis> written, const GenerationConfig& config,
                                       const Tokenizer& tokenizer) {
  std::vector<WrittenText> texts;
  for (const Hypothesis& each : written) texts.push_back(written_text(each, config, tokenizer));
  return texts;
}

} // namespace pumice
