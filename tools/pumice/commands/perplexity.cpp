#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "input/input_stream.h"
#include "loading/open_device.h"
#include "model/vocabulary.h"
#include "options/options.h"
#include "options/prompt.h"
#include "options/subcommand.h"
#include "output/json_output.h"
#include "process/processes.h"
#include "step/runner.h"
#include "task/model_kind.h"
#include "terminal/counted.h"
#include "terminal/terminal.h"

namespace pumice::command {

namespace {

struct PerplexityOptions {
  std::string model;
  std::string text;
  uint32_t windows = 0; // 0: all windows of the text
  bool json = false;
  DeviceOptions device;
  SizeOptions size;
};

constexpr uint32_t default_window = 512; // tokens

// A text that is split into windows of `context` tokens (llama.cpp calls them chunks). If the tokenizer
// begins a text with a token of its own, that token replaces the first one of each window.
struct TextWindows {
  uint32_t context = 0;
  uint32_t count = 0;
  std::vector<uint32_t> tokens;

  uint32_t first_scored() const { return context / 2; } // the first token whose successor is scored
  std::span<const uint32_t> window(uint32_t n) const {
    return std::span(tokens).subspan(size_t{n} * context, context);
  }
};

Result<TextWindows> split(const PerplexityOptions& options, const Tokenizer& tokenizer, uint32_t context) {
  PUMICE_TRY(std::string text, read_text(options.text));
  TextWindows windows{context, 0, tokenizer.encode(text, true)};
  if (windows.tokens.size() < 2 * size_t{context}) {
    return Error{
        Code::invalid_argument,
        fmt::format("{}: the text is too short: it has {}, and two windows of {} (--context) are needed",
                    input_name(options.text), counted(windows.tokens.size(), "token"), context)};
  }
  windows.count = static_cast<uint32_t>(windows.tokens.size() / context);
  if (options.windows) windows.count = std::min(windows.count, options.windows);
  const std::vector<uint32_t> empty = tokenizer.encode("", true);
  if (!empty.empty() && empty[0] == tokenizer.bos()) {
    for (uint32_t n = 0; n < windows.count; ++n) windows.tokens[size_t{n} * context] = empty[0];
  }
  return windows;
}

// Sums for the mean and its standard error.
struct Score {
  uint64_t count = 0;
  double sum = 0, squares = 0; // of the negative log-likelihoods

  void add(float log_likelihood) {
    ++count;
    sum -= log_likelihood;
    squares += double{log_likelihood} * log_likelihood;
  }
  double mean() const { return sum / static_cast<double>(count); }
  double perplexity() const { return std::exp(mean()); }
  // The standard error of the perplexity, to first order; 0 for fewer than two tokens.
  double error() const {
    if (count < 2) return 0;
    const double variance = squares / static_cast<double>(count) - mean() * mean();
    return std::sqrt(std::max(variance, 0.0) / static_cast<double>(count - 1)) * perplexity();
  }
};

Status score_window(Runner& runner, const TextWindows& windows, uint32_t n, Score& score) {
  const std::span<const uint32_t> tokens = windows.window(n);
  for (uint32_t first = 0; first + 1 < tokens.size(); first += runner.size().chunk) {
    const uint32_t count = std::min<uint32_t>(runner.size().chunk, windows.context - 1 - first);
    std::vector<StepToken> step(count);
    uint32_t outputs = 0;
    for (uint32_t i = 0; i < count; ++i) {
      const uint32_t at = first + i;
      const bool scored = at >= windows.first_scored();
      step[i] = {tokens[at], at, 0, 0, scored, tokens[at + 1]};
      outputs += scored;
    }
    PUMICE_CHECK(runner.write_step(step));
    PUMICE_TRY(const Completion done, runner.submit(count));
    PUMICE_CHECK(done.wait());
    PUMICE_TRY(std::vector<float> log_likelihoods, runner.read("log_likelihoods", outputs));
    for (float each : log_likelihoods) score.add(each);
  }
  return {};
}

// `done`: windows that were scored; fewer than there are after Ctrl-C.
std::string result_text(const PerplexityOptions& options, const OpenedDevice& device, uint32_t windows,
                        uint32_t context, uint32_t done, const Score& score) {
  const bool partial = done < windows;
  if (!options.json) {
    const std::string scored = counted(score.count, "token");
    return partial
               ? fmt::format("perplexity {:.4f} +/- {:.5f} so far ({} scored in {} of {} windows of {} "
                             "tokens)\n",
                             score.perplexity(), score.error(), scored, done, windows, context)
               : fmt::format("perplexity {:.4f} +/- {:.5f} ({} scored in {} of {} tokens)\n",
                             score.perplexity(), score.error(), scored, counted(windows, "window"), context);
  }
  Json json;
  json["perplexity"] = score.perplexity();
  json["error"] = score.error();
  json["mean_negative_log_likelihood"] = score.mean();
  json["tokens_scored"] = score.count;
  json["chunks"] = done;
  json["context"] = context;
  json["partial"] = partial;
  add_device(json, device);
  return json_text(json);
}

Status perplexity(const PerplexityOptions& options) {
  PUMICE_TRY(OpenedModel opened, OpenedModel::open(path_of(options.model)));
  const ModelShape shape = opened.definition->shape();
  PUMICE_CHECK(check_continues_text(options.model, shape));
  PUMICE_TRY(std::shared_ptr<const Tokenizer> tokenizer, load_tokenizer(opened.file));
  RunnerOptions runner_options;
  runner_options.size = session_size(options.size, shape);
  if (!options.size.context) runner_options.size.context = std::min(default_window, shape.context);
  runner_options.sampling = false;
  runner_options.all_outputs = true;
  runner_options.readable = {"log_likelihoods"};
  PUMICE_TRY(TextWindows windows, split(options, *tokenizer, runner_options.size.context));
  PUMICE_CHECK(check_ids(windows.tokens, shape.vocabulary, input_name(options.text)));

  PUMICE_TRY(OpenedDevice device, open_device(options.device));
  PUMICE_TRY(std::shared_ptr<const Model> model,
             load_model(std::move(opened), device, options.size.load, &options.size));
  PUMICE_TRY(std::unique_ptr<Runner> runner, Runner::create(model, runner_options));
  Score score;
  ProgressBar bar("scoring");
  for (uint32_t n = 0; n < windows.count; ++n) {
    if (!bar.update(n, windows.count)) return interruption();
    PUMICE_CHECK(score_window(*runner, windows, n, score));
    set_last_words(
        [text = result_text(options, device, windows.count, windows.context, n + 1, score)] { return text; });
  }
  set_last_words({});
  bar.erase();
  print_result(result_text(options, device, windows.count, windows.context, windows.count, score));
  if (!options.json)
    print_figures(fmt::format("{} ({})\n{}", device.name(), device.driver(), compiled_text()));
  return device.save_pipelines();
}

} // namespace

Subcommand add_perplexity(CLI::App& app) {
  CLI::App* sub = app.add_subcommand("perplexity", "Measure how well a model predicts a text.");
  auto options = std::make_shared<PerplexityOptions>();
  sub->add_option("MODEL", options->model, "A GGUF file or a Hugging Face folder")->required()->type_name("");
  sub->add_option("FILE", options->text,
                  "A text file in UTF-8; '-' is standard input. As in llama.cpp, it is split into windows of "
                  "--context tokens, and "
                  "the second half of each window is scored")
      ->required()
      ->type_name("");
  sub->add_option("--chunks", options->windows, "Maximum number of windows to score (default: all)")
      ->type_name("N")
      ->check(within(1u, 1u << 30))
      ->group("Text");
  sub->add_flag(
         "--json", options->json,
         "Print one JSON object. Its fields: perplexity, error, mean_negative_log_likelihood, tokens_scored, "
         "chunks, context, device, driver")
      ->group("Text");
  add_size_options(*sub, options->size, "f32");
  sub->get_option("--context")
      ->description(
          fmt::format("Number of tokens of a window (default: {}, or the model's context if that is "
                      "smaller)",
                      default_window))
      ->check(within(3u, 1u << 24));
  add_device_options(*sub, options->device);
  add_stage_options(*sub, options->device);
  sub->footer("Lower is better.\n\n" +
              example("pumice perplexity models/pretrained/stories-2m.gguf stories.txt --context 256"));
  return {sub,
          [options] { return perplexity(*options); },
          {},
          [options] { return serve_stage(options->model, options->device, options->size.load); },
          &options->device.timeout};
}

} // namespace pumice::command
