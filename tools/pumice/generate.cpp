#include "generate.h"

#include <algorithm>
#include <map>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "json_output.h"
#include "model/vocabulary.h"
#include "model_kind.h"
#include "prompt.h"
#include "step/batch.h"
#include "subcommand.h"
#include "terminal.h"
#include "text/continued_text.h"

namespace pumice::command {

namespace {

// The mask of prompt_ids: 0 is padding. If the file has input_ids, its attention_mask is for those instead.
Result<IdTable> read_mask(const SafetensorsFile& file, const std::string& path, const IdTable& ids) {
  const bool own = file.find("prompt_mask");
  IdTable mask = ids;
  std::ranges::fill(mask.values, 1);
  if (own || (file.find("attention_mask") && !file.find("input_ids"))) {
    PUMICE_TRY(mask, read_table(file, path, own ? "prompt_mask" : "attention_mask"));
  }
  if (mask.rows != ids.rows || mask.columns != ids.columns) {
    return Error{Code::invalid_file,
                 fmt::format("{}: expected the shape of prompt_ids, [{}, {}]; found [{}, {}]", mask.source,
                             ids.rows, ids.columns, mask.rows, mask.columns)};
  }
  return mask;
}

Result<std::vector<Text>> texts_from_file(const std::string& path) {
  PUMICE_TRY(SafetensorsFile file, SafetensorsFile::open(path));
  PUMICE_TRY(const IdTable table, read_table(file, path, "prompt_ids"));
  PUMICE_TRY(const IdTable mask, read_mask(file, path, table));
  std::vector<Text> texts(table.rows);
  for (uint64_t i = 0; i < table.values.size(); ++i) {
    if (!mask.values[i]) continue;
    const int64_t id = table.values[i];
    if (id < 0 || id > UINT32_MAX) {
      return Error{Code::invalid_file,
                   fmt::format("{}: expected ids of the vocabulary; found {}", table.source, id)};
    }
    texts[i / table.columns].prompt.push_back(static_cast<uint32_t>(id));
  }
  for (size_t row = 0; row < texts.size(); ++row) {
    texts[row].source = texts.size() > 1 ? fmt::format("{}: row {}", table.source, row) : table.source;
  }
  return texts;
}

// "--ids", or "--ids 2" if there are several prompts.
std::string numbered(const char* option, size_t index, size_t count) {
  return count > 1 ? fmt::format("{} {}", option, index + 1) : option;
}

// The model's padding token, or 0 if its settings have none. It only fills the ends of shorter rows.
uint32_t padding_token(const ModelFile& model) {
  for (const char* name : {"pad_token_id", "tokenizer.ggml.padding_token_id"}) {
    const Fields fields = model.fields();
    if (!fields.has(name)) continue;
    if (const Result<uint32_t> id = fields.u32(name); id.ok()) return *id;
  }
  return 0;
}

} // namespace

Result<std::vector<Text>> read_prompts(const GenerateOptions& options, const MaybeTokenizer& tokenizer) {
  std::vector<Text> texts;
  for (const std::string& ids : options.ids) {
    Text text{numbered("--ids", texts.size(), options.ids.size()), {}, {}};
    PUMICE_TRY(text.prompt, parse_ids(ids, text.source));
    texts.push_back(std::move(text));
  }
  for (const std::string& prompt : options.prompts) {
    if (!tokenizer.ok()) return tokenizer.error();
    Text text{numbered("--prompt", texts.size(), options.prompts.size()), {}, {}};
    PUMICE_TRY(text.prompt, encode_prompt(**tokenizer, prompt, text.source));
    texts.push_back(std::move(text));
  }
  return texts;
}

Status write_generated(const std::string& path, std::vector<std::vector<uint32_t>> texts,
                       const ModelFile& model) {
  size_t columns = 0;
  for (const std::vector<uint32_t>& text : texts) columns = std::max(columns, text.size());
  const uint32_t padding = padding_token(model);
  std::vector<int64_t> ids;
  for (std::vector<uint32_t>& text : texts) {
    text.resize(columns, padding);
    ids.insert(ids.end(), text.begin(), text.end());
  }
  const SafetensorsFile::Entry entry{
      "generated_ids", "I64", {texts.size(), columns}, std::as_bytes(std::span(ids))};
  return write_safetensors(path, std::span(&entry, 1));
}

namespace {

Status check_texts(const GenerateOptions& options, std::span<const Text> texts, uint32_t vocabulary,
                   uint32_t context) {
  if (texts.empty() && !options.session.exists()) {
    return Error{Code::invalid_argument, "a prompt is needed: expected one of --ids, --inputs or --prompt"};
  }
  if (texts.size() > 1 && options.session.given()) {
    return Error{
        Code::invalid_argument,
        fmt::format("--session keeps one conversation: expected one prompt; found {}", texts.size())};
  }
  for (const Text& text : texts) {
    PUMICE_CHECK(check_ids(text.prompt, vocabulary, text.source));
    PUMICE_CHECK(check_fits(text.prompt.size(), context, text.source));
  }
  return {};
}

// Each sequence has a cache of its own, so a batch of several gets no larger context than it can use.
SessionSize batch_size(const GenerateOptions& options, std::span<const Text> texts, SessionSize size) {
  if (texts.size() < 2) return size;
  size_t longest = 0;
  for (const Text& text : texts) longest = std::max(longest, text.prompt.size());
  size.sequences = static_cast<uint32_t>(std::min<size_t>(options.sequences, texts.size()));
  size.chunk = std::max(size.chunk, size.sequences);
  const uint64_t needed = std::max<uint64_t>(longest + uint64_t{options.count}, size.sequences);
  if (!options.size.context) size.context = static_cast<uint32_t>(std::min<uint64_t>(size.context, needed));
  return size;
}

Status continue_texts(Batch& batch, const GenerateOptions& options, const SamplingParams& sampling,
                      std::vector<Text>& texts) {
  if (options.count == 0) return {};
  std::map<uint32_t, Text*> by_id;
  uint64_t total = 0, written = 0;
  for (Text& text : texts) {
    PUMICE_TRY(uint32_t id, batch.add({text.prompt, sampling, options.count}));
    by_id[id] = &text;
    total += text.prompt.size() + options.count;
  }
  ProgressBar bar("generating");
  while (batch.sequences()) {
    uint64_t read = 0;
    for (const auto& [id, text] : by_id) read += text->prompt.size() - batch.unread(id);
    if (!bar.update(read + written, total)) return interruption();
    PUMICE_TRY(const std::span<const BatchToken> tokens, batch.step());
    for (const BatchToken& each : tokens) {
      Text& text = *by_id[each.sequence];
      if (each.finish_reason == FinishReason::stop) {
        text.end = each.token;
        continue;
      }
      text.ids.push_back(each.token);
      if (options.log_probabilities) text.log_probabilities.push_back(each.log_probabilities);
    }
    written += tokens.size();
  }
  return {};
}

std::string text_of(const Text& text, const MaybeTokenizer& tokenizer) {
  if (!tokenizer.ok()) return fmt::format("{}", fmt::join(text.ids, ","));
  std::string result;
  ContinuedText continued(*tokenizer, text.prompt);
  for (uint32_t id : text.ids) result += continued.push(id);
  return result + continued.flush();
}

Json log_probability(const TokenLogProbability& each) {
  return {{"id", each.token}, {"logprob", each.log_probability}};
}

Json log_probabilities_of(const Text& text) {
  Json all = Json::array();
  for (const TokenLogProbabilities& each : text.log_probabilities) {
    Json json = log_probability(each);
    json["top"] = Json::array();
    for (const TokenLogProbability& top : each.top) json["top"].push_back(log_probability(top));
    all.push_back(std::move(json));
  }
  return all;
}

void print(const GenerateOptions& options, const OpenedDevice& device, std::span<const Text> texts,
           const MaybeTokenizer& tokenizer) {
  if (!options.json) {
    for (const Text& text : texts) print_result(text_of(text, tokenizer) + "\n");
    print_figures(fmt::format("{} ({})\n", device.name(), device.driver()));
    return;
  }
  Json sequences = Json::array();
  for (const Text& text : texts) {
    Json json;
    json["ids"] = text.ids;
    if (tokenizer.ok()) json["text"] = text_of(text, tokenizer);
    if (options.log_probabilities) json["logprobs"] = log_probabilities_of(text);
    sequences.push_back(std::move(json));
  }
  Json json = texts.size() == 1 ? sequences[0] : Json{{"sequences", sequences}};
  add_device(json, device);
  print_json(json);
}

// Loads the session file into the only slot of the batch. Without a prompt, its tokens become the prompt.
Status restore(Batch& batch, const GenerateOptions& options, std::vector<Text>& texts) {
  if (!options.session.exists()) return {};
  PUMICE_TRY(const Conversation conversation, batch.load(options.session.path, 0));
  if (texts.empty()) texts.push_back({options.session.path, conversation.tokens, {}});
  return {};
}

Status save(Batch& batch, const GenerateOptions& options, const SamplingParams& sampling, const Text& text) {
  if (!options.session.given()) return {};
  Conversation conversation{text.prompt, sampling};
  conversation.tokens.insert(conversation.tokens.end(), text.ids.begin(), text.ids.end());
  return batch.save(options.session.path, 0, conversation);
}

Status write(const GenerateOptions& options, std::span<const Text> texts, const ModelFile& model) {
  if (options.outputs.empty()) return {};
  std::vector<std::vector<uint32_t>> ids;
  for (const Text& text : texts) {
    ids.push_back(text.ids);
    if (text.end) ids.back().push_back(*text.end);
  }
  return write_generated(options.outputs, std::move(ids), model);
}

Status generate_on(const GenerateOptions& options, ModelFile file, const ModelShape& shape,
                   const MaybeTokenizer& tokenizer) {
  if (options.beams.given()) {
    return wrong_kind(options.model, shape, "beams need a model with an encoder and a decoder");
  }
  PUMICE_TRY(std::vector<Text> texts,
             options.inputs.empty() ? read_prompts(options, tokenizer) : texts_from_file(options.inputs));
  const SessionSize size = session_size(options.size, shape);
  PUMICE_CHECK(check_texts(options, texts, shape.vocabulary, size.context));

  PUMICE_TRY(OpenedDevice device, open_device(options.device));
  PUMICE_TRY(std::shared_ptr<const Model> model, load_model(std::move(file), device, options.size.load));
  SessionOptions batch_options;
  batch_options.size = batch_size(options, texts, size);
  PUMICE_TRY(std::unique_ptr<Batch> batch, Batch::create(model, batch_options));
  PUMICE_CHECK(restore(*batch, options, texts));

  SamplingParams sampling = options.sampling.resolved();
  sampling.log_probabilities = options.log_probabilities;
  sampling.stop_tokens = options.stops;
  if (!options.ignore_end) {
    const auto ends = end_tokens(model->file(), tokenizer.ok() ? tokenizer->get() : nullptr);
    sampling.stop_tokens.insert(sampling.stop_tokens.end(), ends.begin(), ends.end());
  }
  PUMICE_CHECK(continue_texts(*batch, options, sampling, texts));
  print(options, device, texts, tokenizer);
  PUMICE_CHECK(write(options, texts, model->file()));
  PUMICE_CHECK(save(*batch, options, sampling, texts[0]));
  return device.save_pipelines();
}

Status generate(const GenerateOptions& options) {
  PUMICE_TRY(ModelFile file, ModelFile::open(options.model));
  PUMICE_TRY(std::unique_ptr<ModelDefinition> definition, open_model_definition(file));
  const ModelShape shape = definition->shape();
  PUMICE_CHECK(check_makes_text(options.model, shape));
  const MaybeTokenizer tokenizer = load_tokenizer(file);
  if (!tokenizer.ok() && tokenizer.error().code != Code::not_found) return tokenizer.error();
  return shape.encoder ? generate_from_inputs(options, std::move(file), shape, tokenizer)
                       : generate_on(options, std::move(file), shape, tokenizer);
}

} // namespace

Subcommand add_generate(CLI::App& app) {
  CLI::App* sub = app.add_subcommand(
      "generate", "Generate texts from token ids, texts or tensors, for use by other programs.");
  auto options = std::make_shared<GenerateOptions>();
  sub->add_option("MODEL", options->model, "A GGUF file or a Hugging Face folder")->required()->type_name("");
  const auto repeated = [](CLI::Option* option) {
    return option->expected(1)->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  };
  CLI::Option* ids =
      repeated(sub->add_option("--ids", options->ids,
                               "A prompt as token ids, separated by commas. Can be given more than once: the "
                               "prompts are continued in one batch"))
          ->type_name("ID,...")
          ->group("Prompt");
  CLI::Option* prompt =
      repeated(sub->add_option("--prompt", options->prompts, "A prompt as text. Can be given more than once"))
          ->type_name("TEXT")
          ->group("Prompt")
          ->excludes(ids);
  sub->add_option("--inputs", options->inputs,
                  "A safetensors file with 'prompt_ids' [prompts, tokens] and, if there is padding, "
                  "'prompt_mask' or 'attention_mask' (0 is padding). For a model with an encoder, the file "
                  "has the encoder's inputs: 'input_ids' and 'attention_mask', 'pixel_values', "
                  "'input_features', or 'audio_16khz'")
      ->type_name("FILE")
      ->group("Prompt")
      ->excludes(ids)
      ->excludes(prompt);
  sub->add_option("--sequences", options->sequences,
                  "Maximum number of prompts that are continued at the same time; the others wait")
      ->type_name("N")
      ->check(CLI::Range(1u, 4096u).description(""))
      ->capture_default_str()
      ->group("Memory");
  add_batch_option(*sub, options->batch_tokens, "Memory");
  options->count_option = sub->add_option("-n,--count", options->count,
                                          "Maximum number of tokens to generate; for a model with an "
                                          "encoder, the model's settings come before this default")
                              ->type_name("N")
                              ->capture_default_str()
                              ->group("Text");
  repeated(sub->add_option("--stop-id", options->stops,
                           "End a text before this token. Can be given more than once"))
      ->type_name("ID")
      ->group("Text");
  sub->add_flag("--ignore-eos", options->ignore_end, "Continue after a token that ends the text")
      ->group("Text");
  sub->add_option(
         "--outputs", options->outputs,
         "A safetensors file to write, with 'generated_ids' [texts, tokens]: the new ids, including the "
         "token that ended each text, padded with the model's padding token")
      ->type_name("FILE")
      ->group("Text");
  sub->add_flag("--json", options->json,
                "Print one JSON object: ids (only the new ones), text, device, driver, and with beam search "
                "score. Several prompts are in a list 'sequences', several texts of one prompt (--n-best) "
                "in a list 'hypotheses'")
      ->group("Text");
  sub->add_option("--logprobs", options->log_probabilities,
                  "With --json: add 'logprobs', the log-probabilities of each new token and of the N most "
                  "probable tokens at its position")
      ->type_name("N")
      ->check(CLI::Range(1u, static_cast<uint32_t>(SAMPLING_TOP)).description(""))
      ->group("Text");
  add_session_option(*sub, options->session);
  add_beam_options(*sub, options->beams);
  add_sampling_options(*sub, options->sampling, SamplingParams());
  add_size_options(*sub, options->size, "f32");
  add_device_options(*sub, options->device);
  sub->footer(example("pumice generate model.gguf --ids 1,403,407 -n 12 --temp 0 --ignore-eos --json\n  "
                      "pumice generate t5-folder --inputs in.safetensors --beams 4 --json"));
  return {sub, [options] { return generate(*options); }, {{"MODEL", "--inputs"}, {"--outputs", "--session"}}};
}

} // namespace pumice::command
