#include "terminal/writing.h"

#include <algorithm>

#include <fmt/format.h>

#include "options/option_text.h"
#include "options/option_values.h"
#include "options/prompt.h"
#include "terminal/counted.h"

namespace pumice::command {

namespace {

// The number of output positions. If the settings have no maximum, as many as fit.
uint32_t output_tokens(const GenerationConfig& config, const ModelShape& shape) {
  const uint64_t most =
      config.max_tokens ? config.prompt.size() + uint64_t{config.max_tokens} : uint64_t{default_context};
  return static_cast<uint32_t>(std::min<uint64_t>(most, shape.context));
}

Json json_of(const WrittenText& written) {
  Json json;
  json["text"] = written.text;
  json["tokens"] = written.tokens;
  json["score"] = written.score;
  if (written.links) json["alignment"] = *written.links;
  return json;
}

} // namespace

void add_writing_options(CLI::App& app, WritingOptions& options) {
  app.add_option("-n,--count", options.count,
                 "Maximum tokens of each text (default: the model's). If the model's settings say nothing, "
                 "as many as fit")
      ->type_name("N")
      ->transform(token_count(1, 1u << 24, 0))
      ->group("Text");
  app.add_option("--sequences", options.sequences,
                 "Maximum number of texts that are generated at the same time; each beam counts as one")
      ->type_name("N")
      ->check(within(1u, 4096u))
      ->capture_default_str()
      ->group(more_of(device_group));
  add_batch_option(app, options.batch_tokens, device_group);
  add_weights_option(app, options.load);
  add_beam_options(app, options.beams);
  SamplingParams defaults;
  defaults.temperature = 0;
  add_sampling_options(app, options.sampling, defaults);
  add_device_options(app, options.device);
}

Result<GenerationOptions> writing_options(const WritingOptions& options, GenerationConfig config) {
  GenerationOptions result;
  result.sampling = options.sampling.resolved();
  // With sampling, the number of beams in the model's settings does not apply: it is for greedy search.
  if (result.sampling.temperature > 0 && !options.beams.given()) config.beams = 1;
  PUMICE_CHECK(options.beams.apply(config));
  if (options.count) config.max_tokens = options.count;
  result.hypotheses = options.beams.hypotheses;
  if (options.json) result.sampling.log_probabilities = 1; // for the score
  result.config = std::move(config);
  return result;
}

uint32_t inputs_at_a_time(const WritingOptions& options, const GenerationConfig& config) {
  return std::max(options.sequences / config.beams, 1u);
}

Result<std::unique_ptr<EncoderDecoder>> create_writer(std::shared_ptr<const Model> model,
                                                      const WritingOptions& options,
                                                      const GenerationConfig& config, uint32_t input_tokens) {
  EncoderDecoderOptions session;
  session.inputs = inputs_at_a_time(options, config);
  session.beams = config.beams;
  session.input_tokens = static_cast<uint32_t>(
      std::max<uint64_t>(input_tokens, std::min<uint64_t>(batch_tokens(options.batch_tokens),
                                                          uint64_t{session.inputs} * input_tokens)));
  session.output_tokens = output_tokens(config, model->shape());
  return EncoderDecoder::create(std::move(model), session);
}

std::string text_of(const Hypothesis& written, const GenerationConfig& config, const Tokenizer& tokenizer) {
  std::span<const uint32_t> ids = written.tokens;
  if (!ids.empty() && std::ranges::count(config.ends, ids.back())) ids = ids.first(ids.size() - 1);
  return tokenizer.decode(ids, false);
}

WrittenText written_text(const Hypothesis& written, const GenerationConfig& config,
                         const Tokenizer& tokenizer) {
  return {text_of(written, config, tokenizer), written.tokens, written.score};
}

std::vector<WrittenText> written_texts(std::span<const Hypothesis> written, const GenerationConfig& config,
                                       const Tokenizer& tokenizer) {
  std::vector<WrittenText> texts;
  for (const Hypothesis& each : written) texts.push_back(written_text(each, config, tokenizer));
  return texts;
}

std::string lines_of(std::span<const WrittenText> written, const GenerationOptions& options,
                     const std::string& owner) {
  std::string lines;
  const std::string begin = owner.empty() ? "" : owner + "\t";
  for (const WrittenText& each : written) {
    std::string text = each.text;
    std::ranges::replace(text, '\n', ' '); // each text is one line
    if (each.links) text += " ||| " + to_text(*each.links);
    lines += options.hypotheses > 1 ? begin + fmt::format("{:.4f}\t{}\n", each.score, text) : text + "\n";
  }
  return lines;
}

void add_written(Json& json, std::span<const WrittenText> written, const GenerationOptions& options) {
  if (written.empty()) return;
  json.update(json_of(written.front()));
  if (options.hypotheses < 2) return;
  json["hypotheses"] = Json::array();
  for (const WrittenText& each : written) json["hypotheses"].push_back(json_of(each));
}

void WritingFigures::add(std::span<const std::vector<Hypothesis>> written, double spent) {
  inputs += written.size();
  for (const std::vector<Hypothesis>& each : written) tokens += each.empty() ? 0 : each.front().tokens.size();
  seconds += spent;
}

void WritingFigures::print(const OpenedDevice& device) const {
  print_figures(fmt::format("{} ({})\n{}{}, {} generated in {:.3f} s{}\n", device.name(), device.driver(),
                            compiled_text(), counted(inputs, "input"), counted(tokens, "token"), seconds,
                            rate_text(tokens, seconds)));
}

} // namespace pumice::command
