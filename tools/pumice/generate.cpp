#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "continuation.h"
#include "json_output.h"
#include "open_device.h"
#include "options.h"
#include "prompt.h"
#include "session/session.h"
#include "session/vocabulary.h"
#include "subcommand.h"
#include "terminal.h"

namespace pumice::command {

namespace {

struct GenerateOptions {
  std::string model;
  CLI::Option* ids = nullptr; // one of these three is given
  CLI::Option* inputs = nullptr;
  CLI::Option* prompt = nullptr;
  uint32_t count = 12;
  bool ignore_end = false;
  bool json = false;
  DeviceOptions device;
  SizeOptions size;
  SamplingOptions sampling;
};

struct PromptIds {
  std::string source;
  std::vector<uint32_t> ids;
};

Result<PromptIds> ids_from_file(const std::string& path) {
  PUMICE_TRY(SafetensorsFile file, SafetensorsFile::open(path));
  PUMICE_TRY(IdTable table, read_table(file, path, "prompt_ids"));
  if (table.rows != 1) {
    return Error{
        Code::invalid_file,
        fmt::format("{}: expected one prompt, of the shape [1, tokens]; found {}", table.source, table.rows)};
  }
  PromptIds prompt{table.source, {}};
  for (int64_t id : table.values) {
    if (id < 0 || id > UINT32_MAX) {
      return Error{Code::invalid_file,
                   fmt::format("{}: expected ids of the vocabulary; found {}", table.source, id)};
    }
    prompt.ids.push_back(static_cast<uint32_t>(id));
  }
  return prompt;
}

Result<PromptIds> read_prompt(const GenerateOptions& options,
                              const Result<std::shared_ptr<const Tokenizer>>& tokenizer) {
  if (options.inputs->count()) return ids_from_file(options.inputs->as<std::string>());
  PromptIds prompt;
  if (options.ids->count()) {
    prompt.source = "--ids";
    PUMICE_TRY(prompt.ids, parse_ids(options.ids->as<std::string>(), prompt.source));
    return prompt;
  }
  if (!options.prompt->count()) {
    return Error{Code::invalid_argument, "a prompt is needed: expected one of --ids, --inputs or --prompt"};
  }
  if (!tokenizer.ok()) return tokenizer.error();
  prompt.source = "--prompt";
  PUMICE_TRY(prompt.ids, encode_prompt(**tokenizer, options.prompt->as<std::string>(), prompt.source));
  return prompt;
}

Result<std::vector<uint32_t>> continue_prompt(Session& session, const GenerateOptions& options,
                                              std::span<const uint32_t> prompt,
                                              std::span<const uint32_t> ends) {
  std::vector<uint32_t> ids;
  {
    ProgressBar bar("reading the prompt");
    PUMICE_CHECK(session.prefill(prompt, options.sampling.resolved(), bar.callback()));
  }
  ProgressBar bar("generating");
  while (ids.size() < options.count && !session.full()) {
    if (!bar.update(ids.size(), options.count)) return interruption();
    PUMICE_TRY(uint32_t token, session.next());
    if (!options.ignore_end && std::find(ends.begin(), ends.end(), token) != ends.end()) break;
    ids.push_back(token);
  }
  return ids;
}

void print(const GenerateOptions& options, const OpenedDevice& device, std::span<const uint32_t> prompt,
           const std::vector<uint32_t>& ids, const Result<std::shared_ptr<const Tokenizer>>& tokenizer) {
  std::string text;
  if (tokenizer.ok()) {
    ContinuedText continued(*tokenizer, prompt);
    for (uint32_t id : ids) text += continued.push(id);
    text += continued.flush();
  }
  if (!options.json) {
    print_result(tokenizer.ok() ? text + "\n" : fmt::format("{}\n", fmt::join(ids, ",")));
    fmt::print(stderr, "{} ({})\n", device.name(), device.driver());
    return;
  }
  Json json;
  json["ids"] = ids;
  if (tokenizer.ok()) json["text"] = text;
  add_device(json, device);
  print_json(json);
}

Status generate(const GenerateOptions& options) {
  PUMICE_TRY(ModelFile file, ModelFile::open(options.model));
  PUMICE_TRY(std::unique_ptr<Definition> definition, open_definition(file));
  const Result<std::shared_ptr<const Tokenizer>> tokenizer = load_tokenizer(file);
  if (!tokenizer.ok() && tokenizer.error().code != Code::not_found) return tokenizer.error();
  PUMICE_TRY(PromptIds prompt, read_prompt(options, tokenizer));
  SessionOptions session_options;
  session_options.size = session_size(options.size, definition->shape());
  PUMICE_CHECK(check_ids(prompt.ids, definition->shape().vocabulary, prompt.source));
  PUMICE_CHECK(check_fits(prompt.ids.size(), session_options.size.context, prompt.source));

  PUMICE_TRY(OpenedDevice device, open_device(options.device));
  PUMICE_TRY(std::shared_ptr<const Model> model, load_model(std::move(file), device, options.size.load));
  PUMICE_TRY(std::unique_ptr<Session> session, Session::create(model, session_options));
  const std::vector<uint32_t> ends = end_tokens(model->file(), tokenizer.ok() ? tokenizer->get() : nullptr);
  PUMICE_TRY(std::vector<uint32_t> ids, continue_prompt(*session, options, prompt.ids, ends));
  print(options, device, prompt.ids, ids, tokenizer);
  return device.save_pipelines();
}

} // namespace

Subcommand add_generate(CLI::App& app) {
  CLI::App* sub = app.add_subcommand("generate", "Continue token ids or a text, for programs to read");
  auto options = std::make_shared<GenerateOptions>();
  sub->add_option("MODEL", options->model, "A GGUF file or a Hugging Face folder")->required();
  options->ids = sub->add_option("--ids", "The prompt as ids with commas between them")->type_name("ID,...");
  options->inputs =
      sub->add_option("--inputs", "A safetensors file with the prompt as 'prompt_ids'")->type_name("FILE");
  options->prompt = sub->add_option("--prompt", "The prompt as text")->type_name("TEXT");
  options->ids->excludes(options->inputs)->excludes(options->prompt)->group("Prompt");
  options->inputs->excludes(options->prompt)->group("Prompt");
  options->prompt->group("Prompt");
  sub->add_option("-n,--count", options->count, "Most tokens to generate")
      ->type_name("N")
      ->capture_default_str()
      ->group("Text");
  sub->add_flag("--ignore-eos", options->ignore_end, "Go on after tokens that end a text")->group("Text");
  sub->add_flag("--json", options->json, "Print one JSON object: ids (the new ones), text, device, driver")
      ->group("Text");
  add_sampling_options(*sub, options->sampling, SamplingParams());
  add_size_options(*sub, options->size, "f32");
  add_device_options(*sub, options->device);
  sub->footer(example("pumice generate model.gguf --ids 1,403,407 -n 12 --temp 0 --ignore-eos --json"));
  return {sub, [options] { return generate(*options); }};
}

} // namespace pumice::command
