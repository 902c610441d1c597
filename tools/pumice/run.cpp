#include <algorithm>
#include <optional>

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "generate/session.h"
#include "model/vocabulary.h"
#include "model_kind.h"
#include "open_device.h"
#include "options.h"
#include "prompt.h"
#include "session_file.h"
#include "stop_strings.h"
#include "subcommand.h"
#include "terminal.h"
#include "text/continued_text.h"

namespace pumice::command {

namespace {

struct RunOptions {
  std::string model;
  std::string prompt;
  CLI::Option* prompt_option = nullptr; // says whether a prompt was given, even an empty one
  uint32_t count = 0;                   // 0: until the text or the context ends
  std::vector<std::string> stops;
  bool ignore_end = false;
  SessionFile session;
  DeviceOptions device;
  SizeOptions size;
  SamplingOptions sampling;
};

struct Prompt {
  std::string source = "the prompt";
  std::string text;
  std::vector<uint32_t> ids; // empty: the saved session continues
};

// Whether standard input is a pipe or a file, rather than a terminal or /dev/null.
bool input_is_given() {
  struct stat info = {};
  return fstat(STDIN_FILENO, &info) == 0 && !S_ISCHR(info.st_mode);
}

Result<Prompt> read_prompt(const RunOptions& options, const Tokenizer& tokenizer) {
  Prompt prompt;
  const bool given = options.prompt_option->count() > 0;
  if (given && options.prompt != "-") {
    prompt.text = options.prompt;
  } else if (given || input_is_given()) {
    prompt.source = "standard input";
    PUMICE_TRY(prompt.text, read_standard_input());
  } else if (options.session.exists()) {
    return prompt;
  } else { // without a prompt: begin with the token that begins a text
    prompt.ids = tokenizer.encode("", true);
    if (prompt.ids.empty() && tokenizer.bos()) prompt.ids = {*tokenizer.bos()};
    if (!prompt.ids.empty()) return prompt;
  }
  PUMICE_TRY(prompt.ids, encode_prompt(tokenizer, prompt.text, prompt.source));
  return prompt;
}

// The numbers of the last line of output.
struct Figures {
  uint32_t tokens = 0;
  double prefill_seconds = 0;     // from the start of the prompt to the first token
  double first_token_seconds = 0; // from the start of the program to the first token
  double decode_seconds = 0;      // from the first token to the last
};

// Generates and prints tokens until the text ends.
Status stream(Session& session, const RunOptions& options, std::span<const uint32_t> ends, ContinuedText text,
              const Stopwatch& program, const Stopwatch& prefill, Figures& figures) {
  StopStrings stops(options.stops);
  std::optional<Stopwatch> decoding;
  while (!session.full() && !stops.found() && !interrupted()) {
    if (options.count > 0 && figures.tokens == options.count) break;
    const Result<uint32_t> token = session.next();
    if (!token.ok() && token.error().code == Code::cancelled) break;
    if (!token.ok()) return token.error();
    ++figures.tokens;
    if (!decoding) {
      figures.prefill_seconds = prefill.seconds();
      figures.first_token_seconds = program.seconds();
      decoding.emplace();
    } else {
      figures.decode_seconds = decoding->seconds();
    }
    if (!options.ignore_end && std::find(ends.begin(), ends.end(), *token) != ends.end()) break;
    if (const std::string shown = stops.push(text.push(*token)); !shown.empty()) print_result(shown);
  }
  std::string rest = stops.push(text.flush());
  rest += stops.flush();
  print_result(rest + "\n");
  return {};
}

// Reads the part of the prompt that the session does not hold already.
Status read_prompt(Session& session, const Prompt& prompt, const SamplingParams& sampling) {
  ProgressBar bar("reading the prompt");
  // A progress bar would only flicker for a prompt of one step. The callback also makes reading wait.
  const Progress progress = prompt.ids.size() > session.size().chunk ? bar.callback() : Progress();
  return prompt.ids.empty() ? session.prefill({}, sampling, progress)
                            : session.set_prompt(prompt.ids, sampling, progress);
}

void print_figures(const OpenedDevice& device, const Session& session, size_t prompt_tokens,
                   const Figures& figures, uint64_t seed) {
  const auto rate = [](double count, double seconds) { return seconds > 0 ? count / seconds : 0.0; };
  const double steps = static_cast<double>(std::max<uint64_t>(session.decode_steps(), 1));
  print_to_stderr(fmt::format(
      "\n{} ({}), seed {}\n"
      "prompt {} tokens{}, {:.1f} tokens/s; generated {} tokens, {:.1f} tokens/s; first token after "
      "{:.3f} s, {:.3f} s from the start; host {:.1f} µs per decode step\n",
      device.name(), device.driver(), seed, prompt_tokens,
      session.reused() ? fmt::format(" ({} of them reused)", session.reused()) : "",
      rate(static_cast<double>(prompt_tokens - session.reused()), figures.prefill_seconds), figures.tokens,
      rate(figures.tokens - 1.0, figures.decode_seconds), figures.prefill_seconds,
      figures.first_token_seconds, session.host_seconds() / steps * 1e6));
}

Status run(const RunOptions& options) {
  const Stopwatch program;
  PUMICE_TRY(ModelFile file, ModelFile::open(options.model));
  PUMICE_TRY(std::unique_ptr<ModelDefinition> definition, open_model_definition(file));
  PUMICE_CHECK(check_continues_text(options.model, definition->shape()));
  PUMICE_TRY(std::shared_ptr<const Tokenizer> tokenizer, load_tokenizer(file));
  PUMICE_TRY(Prompt prompt, read_prompt(options, *tokenizer));
  SessionOptions session_options;
  session_options.size = session_size(options.size, definition->shape());
  if (!prompt.ids.empty() || !options.session.exists()) {
    PUMICE_CHECK(check_ids(prompt.ids, definition->shape().vocabulary, prompt.source));
  }
  PUMICE_CHECK(check_fits(prompt.ids.size(), session_options.size.context, prompt.source));

  PUMICE_TRY(OpenedDevice device, open_device(options.device));
  PUMICE_TRY(std::shared_ptr<const Model> model, load_model(std::move(file), device, options.size.load));
  PUMICE_TRY(std::unique_ptr<Session> session, Session::create(model, session_options));
  if (options.session.exists()) PUMICE_CHECK(session->restore(options.session.path));
  const SamplingParams sampling = options.sampling.resolved();
  if (stdout_is_terminal()) {
    print_result("\033[2m" + prompt.text + "\033[0m");
  } else {
    print_result(prompt.text);
  }

  const Stopwatch prefill;
  PUMICE_CHECK(read_prompt(*session, prompt, sampling));
  const std::vector<uint32_t> said(session->tokens().begin(), session->tokens().end());
  const std::vector<uint32_t> ends = end_tokens(model->file(), tokenizer.get());
  Figures figures;
  std::optional<SavedWork> saved; // the text until Ctrl-C is saved, too
  if (options.session.given()) saved.emplace();
  PUMICE_CHECK(stream(*session, options, ends, ContinuedText(tokenizer, said), program, prefill, figures));
  print_figures(device, *session, said.size(), figures, sampling.seed);
  if (options.session.given()) PUMICE_CHECK(session->save(options.session.path));
  PUMICE_CHECK(device.save_pipelines());
  if (interrupted()) return interruption();
  return {};
}

} // namespace

Subcommand add_run(CLI::App& app) {
  CLI::App* sub = app.add_subcommand("run", "Continue a text, and print it while it is generated.");
  auto options = std::make_shared<RunOptions>();
  sub->add_option("MODEL", options->model, "A GGUF file or a Hugging Face folder")->required()->type_name("");
  options->prompt_option = sub->add_option("PROMPT", options->prompt,
                                           "The text to continue; '-' reads it from standard input, as does "
                                           "no PROMPT if that is a pipe or a file");
  options->prompt_option->type_name("");
  sub->add_option(
         "-n,--count", options->count,
         "Maximum number of tokens to generate (default: until the text ends or the context is full)")
      ->type_name("N")
      ->group("Text");
  sub->add_option("--stop", options->stops, "End the text before this string. Can be given more than once")
      ->type_name("STRING")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->group("Text");
  sub->add_flag("--ignore-eos", options->ignore_end, "Continue after a token that ends the text")
      ->group("Text");
  add_session_option(*sub, options->session);
  SamplingParams defaults;
  defaults.temperature = 0.8f;
  defaults.top_k = 40;
  defaults.top_p = 0.95f;
  defaults.min_p = 0.05f;
  add_sampling_options(*sub, options->sampling, defaults);
  add_size_options(*sub, options->size, "f16");
  add_device_options(*sub, options->device);
  sub->footer(example("pumice run models/pretrained/stories-2m.gguf \"Once upon a time\" -n 200 --seed 7"));
  return {sub, [options] { return run(*options); }, {{"MODEL"}, {"--session"}}};
}

} // namespace pumice::command
