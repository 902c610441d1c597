#include "generate.h"

#include <algorithm>
#include <map>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "json_output.h"
#include "model/vocabulary.h"
#include "model_kind.h"
#include "prompt.h"
#include "requests.h"
#include "step/batch.h"
#include "subcommand.h"
#include "terminal.h"
#include "text/continued_text.h"
#include "text/stop_strings.h"

namespace pumice::command {

namespace {

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

Status check_texts(const GenerateOptions& options, std::span<const Text> texts,
                   const MaybeTokenizer& tokenizer, uint32_t vocabulary, uint32_t context) {
  if (texts.empty() && !options.session.exists() && options.requests.empty()) {
    return Error{Code::invalid_argument,
                 "there is no prompt: give one with --prompt, --file, --ids, --inputs or --requests"};
  }
  if (texts.size() > 1 && options.session.given()) {
    return Error{Code::invalid_argument,
                 fmt::format("--session keeps one conversation, but {} prompts were given", texts.size())};
  }
  for (const Text& text : texts) {
    if (!text.stops.empty() && !tokenizer.ok()) return tokenizer.error();
    PUMICE_CHECK(check_ids(text.prompt, vocabulary, text.source));
    PUMICE_CHECK(check_fits(text.prompt.size(), context, text.source));
  }
  return {};
}

// Each sequence has a cache of its own, so a batch of several gets no larger context than it can use.
SessionSize batch_size(const GenerateOptions& options, std::span<const Text> texts, SessionSize size) {
  if (texts.size() < 2) return size;
  uint64_t longest = 0; // tokens of a prompt and its continuation
  for (const Text& text : texts) longest = std::max(longest, text.prompt.size() + uint64_t{text.count});
  size.sequences = static_cast<uint32_t>(std::min<size_t>(options.sequences, texts.size()));
  size.chunk = std::max(size.chunk, size.sequences);
  const uint64_t needed = std::max<uint64_t>(longest, size.sequences);
  if (!options.size.context) size.context = static_cast<uint32_t>(std::min<uint64_t>(size.context, needed));
  return size;
}

// A text that is being written, as the batch gives its tokens.
struct Writing {
  Text* text = nullptr;
  std::optional<ContinuedText> decoder; // with a tokenizer
  StopStrings stops;

  void add(const BatchToken& token, bool log_probabilities) {
    if (token.finish_reason == FinishReason::stop) {
      text->end = token.token;
    } else {
      text->ids.push_back(token.token);
      if (log_probabilities) text->log_probabilities.push_back(token.log_probabilities);
      if (decoder) text->text += stops.push(decoder->push(token.token));
    }
    if (stops.found()) {
      text->finish_reason = "stop string";
    } else if (token.finish_reason != FinishReason::none) {
      text->finish_reason = token.finish_reason == FinishReason::stop     ? "stop token"
                            : token.finish_reason == FinishReason::length ? "count"
                                                                          : "context";
    }
  }
  // At the end of the text.
  void flush() {
    if (!decoder) return;
    text->text += stops.push(decoder->flush());
    text->text += stops.flush();
  }
};

Result<std::map<uint32_t, Writing>> add_texts(Batch& batch, const MaybeTokenizer& tokenizer,
                                              std::vector<Text>& texts) {
  std::map<uint32_t, Writing> writings;
  for (Text& text : texts) {
    if (text.count == 0) {
      text.finish_reason = "count";
      continue;
    }
    PUMICE_TRY(const uint32_t id, batch.add({text.prompt, text.sampling, text.count, {}}));
    Writing writing{&text, {}, StopStrings(text.stops)};
    if (tokenizer.ok()) writing.decoder.emplace(*tokenizer, text.prompt);
    writings.emplace(id, std::move(writing));
  }
  return writings;
}

Status continue_texts(Batch& batch, const GenerateOptions& options, const MaybeTokenizer& tokenizer,
                      TextPrinter& printer, std::vector<Text>& texts) {
  PUMICE_TRY(auto writings, add_texts(batch, tokenizer, texts));
  uint64_t total = 0, written = 0;
  for (const Text& text : texts) total += text.prompt.size() + text.count;
  ProgressBar bar("generating");
  while (batch.sequences()) {
    uint64_t read = 0;
    for (const auto& [id, writing] : writings) read += writing.text->prompt.size() - batch.unread(id);
    if (!bar.update(read + written, total)) return interruption();
    PUMICE_TRY(const std::span<const BatchToken> tokens, batch.step());
    written += tokens.size();
    std::vector<uint32_t> stopped;
    for (const BatchToken& each : tokens) {
      Writing& writing = writings.at(each.sequence);
      if (writing.text->finish_reason) continue;
      writing.add(each, options.log_probabilities > 0);
      if (writing.text->finish_reason) writing.flush();
      if (writing.stops.found() && each.finish_reason == FinishReason::none) stopped.push_back(each.sequence);
    }
    for (uint32_t id : stopped) PUMICE_CHECK(batch.drop(id));
    if (!printer.ready(texts)) continue;
    bar.erase();
    printer.print(texts);
  }
  bar.erase();
  printer.print(texts);
  return {};
}

// Loads the session file into the only slot of the batch. Without a prompt, its tokens become the prompt.
Status restore(Batch& batch, const GenerateOptions& options, const SamplingParams& sampling,
               std::vector<Text>& texts) {
  if (!options.session.exists()) return {};
  PUMICE_TRY(const Conversation conversation, batch.load(options.session.path, 0));
  if (!texts.empty()) return {};
  Text& text = texts.emplace_back();
  text.source = options.session.path;
  text.prompt = conversation.tokens;
  text.count = options.count;
  text.stops = options.stops;
  text.sampling = sampling;
  return {};
}

Status save(Batch& batch, const GenerateOptions& options, const Text& text) {
  if (!options.session.given()) return {};
  Conversation conversation{text.prompt, text.sampling};
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
    return wrong_kind(options.model, shape, "--beams is only for models with an encoder and a decoder");
  }
  PUMICE_TRY(std::vector<Text> texts,
             options.inputs.empty() ? read_prompts(options, tokenizer) : read_prompt_tensors(options));
  const SamplingParams sampling = options.sampling.resolved();
  texts = with_samples(std::move(texts), sampling.seed);
  const SessionSize size = session_size(options.size, shape);
  PUMICE_CHECK(check_texts(options, texts, tokenizer, shape.vocabulary, size.context));
  if (texts.empty() && !options.session.exists()) return {}; // a file without requests

  PUMICE_TRY(OpenedDevice device, open_device(options.device));
  PUMICE_TRY(std::shared_ptr<const Model> model, load_model(std::move(file), device, options.size.load));
  SessionOptions batch_options;
  batch_options.size = batch_size(options, texts, size);
  PUMICE_TRY(std::unique_ptr<Batch> batch, Batch::create(model, batch_options));
  PUMICE_CHECK(restore(*batch, options, sampling, texts));
  std::vector<uint32_t> stop_ids = options.stop_ids;
  if (!options.ignore_end) {
    const auto ends = end_tokens(model->file(), tokenizer.ok() ? tokenizer->get() : nullptr);
    stop_ids.insert(stop_ids.end(), ends.begin(), ends.end());
  }
  for (Text& text : texts) {
    text.sampling.log_probabilities = options.log_probabilities;
    text.sampling.stop_tokens = stop_ids;
  }
  TextPrinter printer(options, device, tokenizer.ok());
  PUMICE_CHECK(continue_texts(*batch, options, tokenizer, printer, texts));
  printer.finish(texts);
  PUMICE_CHECK(write(options, texts, model->file()));
  if (!texts.empty()) PUMICE_CHECK(save(*batch, options, texts[0]));
  return device.save_pipelines();
}

Status generate(const GenerateOptions& options) {
  if (options.log_probabilities && !options.json && !options.json_lines && options.requests.empty()) {
    return Error{Code::invalid_argument, "--logprobs has an effect only with --json or --json-lines"};
  }
  PUMICE_TRY(ModelFile file, ModelFile::open(options.model));
  PUMICE_TRY(std::unique_ptr<ModelDefinition> definition, open_model_definition(file));
  const ModelShape shape = definition->shape();
  PUMICE_CHECK(check_makes_text(options.model, shape));
  PUMICE_CHECK(check_biases(options.sampling, shape.vocabulary));
  PUMICE_CHECK(check_ids_below(options.stop_ids, shape.vocabulary, "--stop-id"));
  const MaybeTokenizer tokenizer = load_tokenizer(file);
  if (!tokenizer.ok() && tokenizer.error().code != Code::not_found) return tokenizer.error();
  return shape.encoder ? generate_from_inputs(options, std::move(file), shape, tokenizer)
                       : generate_on(options, std::move(file), shape, tokenizer);
}

} // namespace

Subcommand add_generate(CLI::App& app) {
  CLI::App* sub = app.add_subcommand("generate", "Generate texts for other programs to read.");
  auto options = std::make_shared<GenerateOptions>();
  sub->add_option("MODEL", options->model, "A GGUF file or a Hugging Face folder")->required()->type_name("");
  const auto repeated = [](CLI::Option* option) {
    return option->expected(1)->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  };
  CLI::Option* ids =
      repeated(sub->add_option("--ids", options->ids,
                               "A prompt as token ids, separated by commas. Can be given more than once: the "
                               "prompts are then continued in one batch"))
          ->type_name("ID,...")
          ->group("Prompt");
  CLI::Option* prompt =
      repeated(sub->add_option("--prompt", options->prompts, "A prompt as text. Can be given more than once"))
          ->type_name("TEXT")
          ->group("Prompt")
          ->excludes(ids);
  CLI::Option* files =
      repeated(sub->add_option("-f,--file", options->files,
                               "A prompt from this file; '-' is standard input. Can be given more than once"))
          ->type_name("FILE")
          ->group("Prompt")
          ->excludes(ids)
          ->excludes(prompt);
  CLI::Option* requests =
      sub->add_option("--requests", options->requests,
                      "A file of JSON lines; '-' is standard input. Each line is an object with 'prompt' or "
                      "'ids', and if wanted 'id', which stands in the answer again, and values that override "
                      "the options: 'count', 'samples', 'seed', 'stop', 'temperature', 'top_p' and so on. "
                      "The answers are JSON lines, too")
          ->type_name("FILE")
          ->group("Prompt")
          ->excludes(ids)
          ->excludes(prompt)
          ->excludes(files);
  sub->add_option(
         "--inputs", options->inputs,
         "A safetensors file with the prompts or the encoder's inputs. It has 'prompt_ids' "
         "[prompts, tokens] and, if there is padding, 'prompt_mask' or 'attention_mask' (0 is padding). "
         "For a model with an encoder, it has 'input_ids' and 'attention_mask', 'pixel_values', "
         "'input_features', or 'audio_16khz'")
      ->type_name("FILE")
      ->group(more_of("Prompt"))
      ->excludes(ids)
      ->excludes(prompt)
      ->excludes(files)
      ->excludes(requests);
  sub->add_option(
         "--samples", options->samples,
         "Number of texts for each prompt. The first has the seed of --seed, each other one the next")
      ->type_name("N")
      ->check(within(1u, 1u << 20))
      ->capture_default_str()
      ->group("Text");
  repeated(
      sub->add_option("--stop", options->stops, "End a text before this string. Can be given more than once"))
      ->type_name("STRING")
      ->group("Text");
  sub->add_option("--sequences", options->sequences,
                  "Maximum number of prompts that are continued at the same time; the others wait")
      ->type_name("N")
      ->check(within(1u, 4096u))
      ->capture_default_str()
      ->group(more_of(device_group));
  add_batch_option(*sub, options->batch_tokens, device_group);
  options->count_option = sub->add_option("-n,--count", options->count,
                                          "Maximum number of tokens. -1 is as many as fit. For a model with "
                                          "an encoder, its settings come before this default")
                              ->type_name("N")
                              ->transform(token_count(0, UINT32_MAX - 1, no_token_limit))
                              ->capture_default_str()
                              ->group("Text");
  repeated(sub->add_option("--stop-id", options->stop_ids,
                           "End a text before this token. Can be given more than once"))
      ->type_name("ID")
      ->check(within(0u, UINT32_MAX))
      ->group(more_of("Text"));
  sub->add_flag("--ignore-eos", options->ignore_end, "Continue after a token that ends the text")
      ->group(more_of("Text"));
  sub->add_option("--outputs", options->outputs,
                  "Write the new ids to this safetensors file. Its tensor 'generated_ids' [texts, tokens] "
                  "includes the "
                  "token that ended each text, and is padded with the model's padding token")
      ->type_name("FILE")
      ->group("Text");
  sub->add_flag("--json", options->json,
                "Print one JSON object. Its fields: ids (only the new ones), text, device, driver, and with "
                "beam search score. Several prompts are in a list 'sequences', several texts of one prompt "
                "(--n-best) in a list 'hypotheses'")
      ->group("Output");
  sub->add_flag("--json-lines", options->json_lines,
                "Print a JSON object for each text when it is complete. Each is on a line of its own, with "
                "the fields of --json, index (of the prompt) and sample")
      ->group("Output");
  sub->add_option("--logprobs", options->log_probabilities,
                  "Add the log-probabilities of each new token and of the N most probable ones at its place. "
                  "They are in the field 'logprobs'")
      ->type_name("N")
      ->check(within(1u, static_cast<uint32_t>(SAMPLING_TOP)))
      ->group(more_of("Text"));
  add_session_option(*sub, options->session);
  add_beam_options(*sub, options->beams);
  add_sampling_options(*sub, options->sampling, SamplingParams());
  add_size_options(*sub, options->size, "f32");
  add_device_options(*sub, options->device);
  sub->footer(example("pumice generate model.gguf --ids 1,403,407 -n 12 --ignore-eos --json"));
  return {sub,
          [options] { return generate(*options); },
          {{"MODEL", "--inputs", "--file", "--requests"}, {"--outputs", "--session"}}};
}

} // namespace pumice::command
