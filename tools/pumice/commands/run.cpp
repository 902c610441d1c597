#include <algorithm>
#include <optional>

#include <fmt/format.h>

#include "chat/session_file.h"
#include "generate/session.h"
#include "input/input_stream.h"
#include "loading/draft_model.h"
#include "loading/fitting_size.h"
#include "loading/open_device.h"
#include "model/model_facts.h"
#include "model/vocabulary.h"
#include "options/adapter_options.h"
#include "options/form_options.h"
#include "options/options.h"
#include "options/prompt.h"
#include "options/subcommand.h"
#include "output/json_output.h"
#include "process/processes.h"
#include "task/generated_text.h"
#include "task/model_kind.h"
#include "terminal/counted.h"
#include "terminal/terminal.h"

namespace pumice::command {

namespace {

struct RunOptions {
  std::string model;
  std::string prompt;
  CLI::Option* prompt_option = nullptr; // says whether a prompt was given, even an empty one
  std::string file;                     // empty: none
  uint32_t count = 0;                   // 0: until the text or the context ends
  std::vector<std::string> stops;
  bool ignore_end = false;
  bool escape = false;
  bool no_echo = false;
  bool json = false;
  SessionFile session;
  DeviceOptions device;
  SizeOptions size;
  SamplingOptions sampling;
  FormSource form;
  std::vector<std::string> adapters;
};

struct Prompt {
  std::string source = "the prompt";
  std::string text;
  std::vector<uint32_t> ids; // empty: the saved session continues
};

// The text that is asked for by name, or that a pipe brings. None, and an empty pipe: an empty text.
Result<Prompt> read_prompt_text(const RunOptions& options) {
  Prompt prompt;
  const bool has_prompt = options.prompt_option->count() > 0;
  if (has_prompt && options.prompt != "-") {
    prompt.text = options.escape ? without_escapes(options.prompt) : options.prompt;
    return prompt;
  }
  const std::string path = options.file.empty() ? "-" : options.file;
  const bool asked = has_prompt || !options.file.empty();
  if (!asked && !input_is_given()) return prompt;
  prompt.source = input_name(path);
  PUMICE_TRY(prompt.text, read_text(path));
  return prompt;
}

Result<Prompt> read_prompt(const RunOptions& options, const Tokenizer& tokenizer) {
  PUMICE_TRY(Prompt prompt, read_prompt_text(options));
  const bool asked = options.prompt_option->count() > 0 || !options.file.empty();
  if (prompt.text.empty() && !asked) {
    if (options.session.exists()) return prompt;
    // Begin with the token that begins a text.
    prompt.ids = tokenizer.encode("", true);
    if (prompt.ids.empty() && tokenizer.bos()) prompt.ids = {*tokenizer.bos()};
    if (!prompt.ids.empty()) return prompt;
  }
  PUMICE_TRY(prompt.ids, encode_prompt(tokenizer, prompt.text, prompt.source));
  return prompt;
}

// What was generated.
struct Generated {
  std::string text;
  std::vector<uint32_t> ids;
  const char* finish_reason = "";
  double prefill_seconds = 0;     // from the start of the prompt to the first token, without compiling
  double first_token_seconds = 0; // from the start of the program to the first token
  double decode_seconds = 0;      // from the first token to the last
};

void echo(const std::string& prompt) {
  print_result(stdout_shows_styles() ? "\033[2m" + prompt + "\033[0m" : prompt);
}

// Generates tokens until the text ends, and prints them unless JSON is asked for. `on_first` is called before
// the first is printed.
Status stream(Session& session, const RunOptions& options, std::span<const uint32_t> ends, GeneratedText text,
              const std::function<void()>& on_first, const Stopwatch& program, const ComputeWatch& prefill,
              Generated& generated) {
  const auto show = [&](const std::string& piece) {
    generated.text += piece;
    if (!options.json) print_result(piece);
  };
  std::optional<ComputeWatch> decoding;
  const auto finish = [&]() -> const char* {
    if (interrupted()) return "interrupted";
    if (text.stopped()) return "stop string";
    if (options.count > 0 && generated.ids.size() == options.count) return "count";
    return session.full() ? "context" : nullptr;
  };
  while (!(generated.finish_reason = finish())) {
    const Result<uint32_t> token = session.next();
    if (!token.ok() && token.error().code == Code::cancelled) {
      generated.finish_reason = "interrupted";
      break;
    }
    if (!token.ok()) return token.error();
    generated.ids.push_back(*token);
    if (!decoding) {
      generated.prefill_seconds = prefill.seconds();
      generated.first_token_seconds = program.seconds();
      decoding.emplace();
      on_first();
    } else {
      generated.decode_seconds = decoding->seconds();
    }
    if (!options.ignore_end && std::ranges::count(ends, *token)) {
      generated.finish_reason = "stop token";
      break;
    }
    if (const std::string shown = text.push(*token); !shown.empty()) show(shown);
  }
  show(text.finish());
  if (!options.json) print_result("\n");
  return {};
}

// Reads the part of the prompt that the session does not hold already. The bar stays until the first token.
Status read_prompt(Session& session, const Prompt& prompt, const SamplingParams& sampling, TextForm form,
                   ProgressBar& bar) {
  bar.update(0, prompt.ids.size());
  // The callback makes reading wait, and a prompt of one step has nothing to tell before its end.
  const Progress progress = prompt.ids.size() > session.size().chunk ? bar.callback() : Progress();
  return prompt.ids.empty() ? session.prefill({}, sampling, progress, std::move(form))
                            : session.set_prompt(prompt.ids, sampling, progress, {}, std::move(form));
}

// The seed, where the text depends on it.
std::string seed_text(const SamplingParams& sampling) {
  return sampling.temperature > 0 ? fmt::format(", seed {}", sampling.seed) : "";
}

double host_step_seconds(const Session& session) {
  return session.host_seconds() / static_cast<double>(std::max<uint64_t>(session.decode_steps(), 1));
}

void print_run_figures(const OpenedDevice& device, const Session& session, size_t prompt_tokens,
                       const Generated& generated, const SamplingParams& sampling) {
  const size_t count = generated.ids.size(), read = prompt_tokens - session.reused();
  print_figures(fmt::format(
      "\n{} ({}){}\n{}"
      "prompt {}{}{}; generated {}{}; first token after "
      "{:.3f} s, {:.3f} s from the start; host {:.1f} µs per decode step{}\n",
      device.name(), device.driver(), seed_text(sampling), compiled_text(), counted(prompt_tokens, "token"),
      session.reused() ? fmt::format(" ({} of them reused)", session.reused()) : "",
      rate_text(read, generated.prefill_seconds), counted(count, "token"),
      rate_text(count ? count - 1 : 0, generated.decode_seconds), generated.prefill_seconds,
      generated.first_token_seconds, host_step_seconds(session) * 1e6,
      session.size().drafts
          ? fmt::format("; {} of {} guesses held", session.drafts().held, session.drafts().guessed)
          : ""));
}

void print_run_json(const OpenedDevice& device, const Session& session, const Prompt& prompt,
                    size_t prompt_tokens, const Generated& generated, const Json& seed) {
  Json json;
  json["prompt"] = prompt.text;
  json["text"] = generated.text;
  json["ids"] = generated.ids;
  json["finish_reason"] = generated.finish_reason;
  json["seed"] = seed;
  json["prompt_tokens"] = prompt_tokens;
  json["reused_tokens"] = session.reused();
  json["compiled_kernels"] = compiled_kernels().count;
  json["compile_seconds"] = compiled_kernels().seconds;
  json["prompt_seconds"] = generated.prefill_seconds;
  json["first_token_seconds"] = generated.first_token_seconds;
  json["generate_seconds"] = generated.decode_seconds;
  json["host_step_seconds"] = host_step_seconds(session);
  if (session.size().drafts)
    json["drafts"] = {{"guessed", session.drafts().guessed}, {"held", session.drafts().held}};
  add_device(json, device);
  print_json(json);
}

Status run(const RunOptions& options) {
  const Stopwatch program;
  PUMICE_TRY(OpenedModel opened, OpenedModel::open(path_of(options.model), options.size.load.settings));
  const ModelShape shape = opened.definition->shape();
  PUMICE_CHECK(check_continues_text(opened.file, shape));
  PUMICE_CHECK(check_biases(options.sampling, shape.vocabulary));
  PUMICE_TRY(std::shared_ptr<const Tokenizer> tokenizer, load_tokenizer(opened.file));
  PUMICE_CHECK(check_form(options.form, options.ignore_end));
  PUMICE_TRY(const FormSource form_source, read_form(options.form));
  PUMICE_TRY(std::shared_ptr<Form> form, FormMaker(tokenizer).make(form_source));
  PUMICE_TRY(Prompt prompt, read_prompt(options, *tokenizer));
  if (has_chat_template(opened.file))
    print_note("this model answers in chats: 'pumice chat' asks it, 'pumice run' continues a text");
  SessionOptions session_options;
  session_options.size = session_size(options.size, shape);
  if (!prompt.ids.empty() || !options.session.exists()) {
    PUMICE_CHECK(check_ids(prompt.ids, shape.vocabulary, prompt.source));
  }
  PUMICE_CHECK(check_fits(prompt.ids.size(), session_options.size.context, prompt.source));
  PUMICE_TRY(const NamedAdapters adapters, NamedAdapters::load(options.adapters, opened));
  session_options.adapters = adapters.room(1);

  PUMICE_TRY(OpenedDevice device, open_device(options.device));
  SizeOptions size = options.size;
  PUMICE_TRY(std::shared_ptr<const Model> model, load_fitting_model(std::move(opened), device, size));
  session_options.size = session_size(size, shape);
  PUMICE_CHECK(check_fits(prompt.ids.size(), session_options.size.context, prompt.source));
  PUMICE_TRY(session_options.draft_model, load_draft_model(size, device, *model));
  Result<std::unique_ptr<Session>> created = Session::create(model, session_options);
  if (!created.ok()) return with_fit_advice(created.error(), size);
  const std::unique_ptr<Session> session = std::move(*created);
  PUMICE_CHECK(session->set_adapter(adapters.usual()));
  print_detail(fmt::format("context {} tokens, chunk {}, keys and values in {}", session->size().context,
                           session->size().chunk, to_string(session->size().cache)));
  if (options.session.exists()) PUMICE_CHECK(session->restore(path_of(options.session.path)));
  PUMICE_TRY(SamplingParams sampling, options.sampling.resolved(*tokenizer));
  const std::vector<uint32_t> ends = end_tokens(model->file(), tokenizer.get());
  if (form) sampling.stop_tokens = ends;

  const ComputeWatch prefill;
  ProgressBar bar("reading the prompt");
  PUMICE_CHECK(read_prompt(*session, prompt, sampling, {std::move(form)}, bar));
  const std::vector<uint32_t> said(session->tokens().begin(), session->tokens().end());
  Generated generated;
  std::optional<SavedWork> saved; // the text until Ctrl-C is saved, too
  if (options.session.given()) saved.emplace();
  const auto on_first = [&] {
    if (!saved && options.json) saved.emplace(); // the object with the text until then is printed
    bar.erase();
    if (!options.no_echo && !options.json) echo(prompt.text);
  };
  PUMICE_CHECK(stream(*session, options, ends, GeneratedText(tokenizer, said, options.stops), on_first,
                      program, prefill, generated));
  if (options.json) {
    print_run_json(device, *session, prompt, said.size(), generated,
                   seed_json(sampling, options.sampling.seed.has_value()));
  } else {
    print_run_figures(device, *session, said.size(), generated, sampling);
  }
  if (options.session.given()) PUMICE_CHECK(session->save(path_of(options.session.path)));
  PUMICE_CHECK(device.save_pipelines());
  if (interrupted()) return interruption();
  return {};
}

} // namespace

Subcommand add_run(CLI::App& app) {
  CLI::App* sub = app.add_subcommand("run", "Continue a text, and print it while it is generated.");
  auto options = std::make_shared<RunOptions>();
  sub->add_option("MODEL", options->model, "A GGUF file or a Hugging Face folder")->required()->type_name("");
  options->prompt_option = sub->add_option(
      "PROMPT", options->prompt,
      "The text to continue; '-' reads it from standard input. Without PROMPT, standard input is read too if "
      "it is a pipe or a file. Of a text that is read, the final newline is left out");
  options->prompt_option->type_name("");
  sub->add_option("-f,--file", options->file, "Read the text to continue from this file")
      ->type_name("FILE")
      ->excludes(options->prompt_option)
      ->group("Text");
  sub->add_flag("-e,--escape", options->escape, "Read \\n, \\t, \\r, \\\", \\' and \\\\ in PROMPT as C does")
      ->group(more_of("Text"));
  sub->add_option("-n,--count", options->count,
                  "Maximum number of tokens (default: until the text ends). The text ends too when the "
                  "context is full")
      ->type_name("N")
      ->transform(token_count(0, UINT32_MAX, 0))
      ->group("Text");
  sub->add_option("--stop", options->stops, "End the text before this string. Can be given more than once")
      ->type_name("STRING")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->group("Text");
  sub->add_flag("--ignore-eos", options->ignore_end, "Continue after a token that ends the text")
      ->group(more_of("Text"));
  add_session_option(*sub, options->session);
  sub->add_flag("--no-echo", options->no_echo, "Print only what is generated, without the prompt")
      ->group("Output");
  sub->add_flag("--json", options->json,
                "Print one JSON object at the end. Its fields: prompt, text and ids (what was generated), "
                "finish_reason, seed, times")
      ->group("Output");
  add_adapter_option(*sub, options->adapters);
  add_form_options(*sub, options->form);
  add_sampling_options(*sub, options->sampling, usual_sampling());
  add_size_options(*sub, options->size, "f16");
  add_settings_options(*sub, options->size.load);
  add_drafts_option(*sub, options->size);
  add_fit_option(*sub, options->size);
  add_device_options(*sub, options->device);
  add_stage_options(*sub, options->device);
  sub->footer(example("pumice run models/pretrained/stories-2m.gguf \"Once upon a time\" -n 200"));
  return {sub,
          [options] { return run(*options); },
          {{"MODEL", "--file"}, {"--session"}},
          [options] { return serve_stage(options->model, options->device, options->size.load); },
          &options->device.timeout};
}

} // namespace pumice::command
