#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "generate.h"
#include "generate/encoder_decoder.h"
#include "json_output.h"
#include "model_inputs.h"
#include "model_kind.h"
#include "prompt.h"
#include "terminal.h"

namespace pumice::command {

namespace {

Status check_options(const GenerateOptions& options, const ModelShape& shape) {
  if (options.session.given())
    return wrong_kind(options.model, shape, "--session is only for models without an encoder");
  if (options.log_probabilities)
    return wrong_kind(options.model, shape, "--logprobs is only for models without an encoder");
  const std::pair<const char*, bool> others[] = {{"--samples", options.samples > 1},
                                                 {"--stop", !options.stops.empty()},
                                                 {"--requests", !options.requests.empty()},
                                                 {"--json-lines", options.json_lines}};
  for (const auto& [name, given] : others) {
    if (given)
      return wrong_kind(options.model, shape, fmt::format("{} is only for models without an encoder", name));
  }
  if (shape.encoder->kind != InputKind::tokens && options.inputs.empty()) {
    return wrong_kind(options.model, shape, "it does not read text; give its inputs with --inputs");
  }
  return {};
}

Result<EncoderBatch> read_inputs(const GenerateOptions& options, const EncoderShape& shape,
                                 const MaybeTokenizer& tokenizer) {
  EncoderBatch batch;
  if (!options.inputs.empty()) {
    PUMICE_TRY(SafetensorsFile file, SafetensorsFile::open(options.inputs));
    PUMICE_TRY(batch, read_encoder_inputs(file, options.inputs, shape));
    PUMICE_CHECK(check_lengths(batch, shape));
    return batch;
  }
  PUMICE_TRY(std::vector<Text> texts, read_prompts(options, tokenizer));
  if (texts.empty()) {
    return Error{Code::invalid_argument,
                 "there is no input: give one with --prompt, --file, --ids or --inputs"};
  }
  for (Text& text : texts) {
    PUMICE_CHECK(check_ids(text.prompt, shape.vocabulary, text.source));
    batch.source = text.source;
    batch.places.rows.emplace_back(text.prompt.size());
    PUMICE_CHECK(check_lengths(batch, shape));
    batch.inputs.push_back({std::move(text.prompt), {}, {}});
  }
  return batch;
}

Result<GenerationOptions> generation_options(const GenerateOptions& options, const ModelFile& file,
                                             const ModelShape& shape) {
  GenerationOptions result;
  PUMICE_TRY(result.config, read_generation_config(file, shape.vocabulary));
  GenerationConfig& config = result.config;
  PUMICE_CHECK(options.beams.apply(config));
  if (options.ignore_end) config.ends.clear();
  config.ends.insert(config.ends.end(), options.stop_ids.begin(), options.stop_ids.end());
  if (options.count_option->count() || config.max_tokens == 0) config.max_tokens = options.count;
  if (config.max_tokens == no_token_limit) {
    const uint32_t room =
        options.size.context ? options.size.context : std::min(shape.context, default_context);
    config.max_tokens = room - std::min(room, static_cast<uint32_t>(config.prompt.size()));
  }
  result.hypotheses = options.beams.hypotheses;
  result.sampling = options.sampling.resolved();
  return result;
}

EncoderDecoderOptions session_options(const GenerateOptions& options, const ModelShape& shape,
                                      const GenerationConfig& config, const EncoderBatch& batch) {
  EncoderDecoderOptions session;
  session.inputs = static_cast<uint32_t>(std::min<size_t>(options.sequences, batch.inputs.size()));
  session.beams = config.beams;
  session.cache = session_size(options.size, shape).cache;
  session.input_tokens = step_positions(batch, *shape.encoder, batch_tokens(options.batch_tokens));
  const uint64_t needed = uint64_t{config.max_tokens} + config.prompt.size();
  session.output_tokens = options.size.context;
  if (!options.size.context) {
    session.output_tokens = static_cast<uint32_t>(std::min<uint64_t>(shape.context, needed));
  }
  return session;
}

// The texts that were generated for one input, best first.
using Answers = std::vector<Hypothesis>;

Result<std::vector<Answers>> generate_all(std::shared_ptr<const Model> model, const GenerateOptions& options,
                                          const EncoderBatch& batch, GenerationOptions generation) {
  if (generation.config.max_tokens == 0) return std::vector<Answers>(batch.inputs.size(), Answers(1));
  const EncoderDecoderOptions size = session_options(options, model->shape(), generation.config, batch);
  PUMICE_TRY(std::unique_ptr<EncoderDecoder> session, EncoderDecoder::create(std::move(model), size));
  ProgressBar bar("generating");
  generation.progress = bar.callback();
  return session->generate(batch.inputs, generation);
}

// The tokens of the text, without the one that ended it.
std::vector<uint32_t> own_ids(const Hypothesis& text, const GenerationConfig& config) {
  std::vector<uint32_t> ids = text.tokens;
  if (!ids.empty() && std::ranges::count(config.ends, ids.back())) ids.pop_back();
  return ids;
}

Json json_of(const Hypothesis& text, const GenerationConfig& config, const MaybeTokenizer& tokenizer) {
  Json json;
  json["ids"] = own_ids(text, config);
  if (tokenizer.ok()) json["text"] = (*tokenizer)->decode(own_ids(text, config), false);
  if (config.beams > 1) json["score"] = text.score;
  return json;
}

Json json_of(const Answers& texts, const GenerationConfig& config, const MaybeTokenizer& tokenizer,
             uint32_t wanted) {
  Json json = json_of(texts.front(), config, tokenizer);
  if (wanted < 2) return json;
  json["hypotheses"] = Json::array();
  for (const Hypothesis& text : texts) json["hypotheses"].push_back(json_of(text, config, tokenizer));
  return json;
}

// `owner` is the number of the input and a tab, or empty if there is only one.
void print_lines(const Answers& texts, const GenerationConfig& config, const MaybeTokenizer& tokenizer,
                 uint32_t wanted, const std::string& owner) {
  for (const Hypothesis& text : texts) {
    const std::vector<uint32_t> ids = own_ids(text, config);
    const std::string line =
        tokenizer.ok() ? (*tokenizer)->decode(ids, false) : fmt::format("{}", fmt::join(ids, ","));
    print_result(wanted > 1 ? fmt::format("{}{:.4f}\t{}\n", owner, text.score, line) : line + "\n");
  }
}

void print(const GenerateOptions& options, const OpenedDevice& device, const std::vector<Answers>& all,
           const GenerationConfig& config, const MaybeTokenizer& tokenizer) {
  const uint32_t wanted = options.beams.hypotheses;
  if (!options.json) {
    for (size_t i = 0; i < all.size(); ++i) {
      print_lines(all[i], config, tokenizer, wanted, all.size() > 1 ? fmt::format("{}\t", i + 1) : "");
    }
    print_figures(fmt::format("{} ({})\n{}", device.name(), device.driver(), compiled_text()));
    return;
  }
  Json sequences = Json::array();
  for (const Answers& texts : all) sequences.push_back(json_of(texts, config, tokenizer, wanted));
  Json json = all.size() == 1 ? sequences[0] : Json{{"sequences", sequences}};
  add_device(json, device);
  print_json(json);
}

} // namespace

Status generate_from_inputs(const GenerateOptions& options, ModelFile file, const ModelShape& shape,
                            const MaybeTokenizer& tokenizer) {
  PUMICE_CHECK(check_options(options, shape));
  PUMICE_TRY(EncoderBatch batch, read_inputs(options, *shape.encoder, tokenizer));
  PUMICE_TRY(const GenerationOptions generation, generation_options(options, file, shape));
  PUMICE_TRY(OpenedDevice device, open_device(options.device));
  PUMICE_TRY(std::shared_ptr<const Model> model, load_model(std::move(file), device, options.size.load));
  PUMICE_CHECK(replace_sound(*model, batch));
  PUMICE_TRY(const std::vector<Answers> all, generate_all(model, options, batch, generation));
  print(options, device, all, generation.config, tokenizer);
  if (!options.outputs.empty()) {
    std::vector<std::vector<uint32_t>> ids;
    for (const Answers& texts : all) {
      for (const Hypothesis& text : texts) ids.push_back(text.tokens);
    }
    PUMICE_CHECK(write_generated(options.outputs, std::move(ids), model->file()));
  }
  return device.save_pipelines();
}

} // namespace pumice::command
