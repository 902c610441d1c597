#include "commands/perplexity.h"

#include <algorithm>

#include <fmt/format.h>

#include "input/input_stream.h"
#include "model/vocabulary.h"
#include "options/adapter_options.h"
#include "options/prompt.h"
#include "options/subcommand.h"
#include "output/output_files.h"
#include "process/processes.h"
#include "step/check_tokens.h"
#include "task/model_kind.h"
#include "task/quality/divergence.h"
#include "terminal/counted.h"
#include "terminal/terminal.h"
#include "terminal/wrapping.h"

namespace pumice::command {

namespace {

Result<TextWindows> windows_of(const PerplexityOptions& options, const MeasuredFile& file) {
  PUMICE_TRY(const std::string text, read_text(options.text));
  PUMICE_TRY(TextWindows windows,
             TextWindows::cut(file.tokenizer->encode(text, true), file.size.context, options.stride,
                              options.windows, input_name(options.text)));
  PUMICE_CHECK(check_ids(windows.tokens, file.shape.vocabulary, input_name(options.text)));
  if (!options.stride) windows.begin = file.begin(); // llama.cpp has it only then
  return windows;
}

// `done`: windows that were scored; fewer than there are after Ctrl-C.
std::string result_text(const PerplexityOptions& options, const OpenedDevice& device,
                        const TextWindows& windows, uint32_t done, const LikelihoodSum& score) {
  const bool partial = done < windows.count;
  if (!options.json) {
    const std::string scored = counted(score.count, "token");
    return partial
               ? fmt::format("perplexity {:.4f} +/- {:.5f} so far ({} scored in {} of {} windows of {} "
                             "tokens)\n",
                             score.perplexity(), score.error(), scored, done, windows.count, windows.length)
               : fmt::format("perplexity {:.4f} +/- {:.5f} ({} scored in {} of {} tokens)\n",
                             score.perplexity(), score.error(), scored, counted(windows.count, "window"),
                             windows.length);
  }
  Json json;
  json["perplexity"] = score.perplexity();
  json["error"] = score.error();
  json["mean_negative_log_likelihood"] = score.mean();
  json["tokens_scored"] = score.count;
  json["chunks"] = done;
  json["context"] = windows.length;
  if (options.stride) json["stride"] = options.stride;
  json["partial"] = partial;
  add_device(json, device);
  return json_text(json);
}

// Keeps what was written until Ctrl-C or an error.
Status finish_base(const PerplexityOptions& options, BaseWriter& base, const TextWindows& windows,
                   uint32_t done) {
  PUMICE_CHECK(base.finish(done));
  if (done < windows.count)
    print_note(fmt::format("{} has the first {} of {} windows", options.base, done, windows.count));
  return {};
}

Status measure_text(const PerplexityOptions& options, MeasuredFile file) {
  PUMICE_TRY(const TextWindows windows, windows_of(options, file));
  file.size.context = windows.length;
  const bool saves = !options.base.empty();
  if (saves) {
    PUMICE_CHECK(check_files({{"MODEL", path_of(options.model)}, {"FILE", path_of(options.text)}},
                             {{"--kl-divergence-base", path_of(options.base)}}));
  }
  PUMICE_TRY(OpenedDevice device, open_device(options.device));
  PUMICE_TRY(std::shared_ptr<const Model> model,
             load_model(std::move(file.opened), device, options.size.load, &options.size));
  PUMICE_TRY(const std::unique_ptr<WindowReader> reader,
             WindowReader::create(model, file.size, saves, file.adapter));
  std::unique_ptr<BaseWriter> base;
  std::optional<SavedWork> saved; // the windows until Ctrl-C
  if (saves) {
    saved.emplace();
    PUMICE_TRY(base, BaseWriter::create(path_of(options.base), windows, file.shape.vocabulary));
  }
  LikelihoodSum score;
  const WindowReader::Take take = [&](uint32_t token, std::span<const float> values) {
    score.add(saves ? pumice::log_probability(values, token) : values[0]);
    if (saves) base->add(values);
  };
  ProgressBar bar("scoring");
  uint32_t done = 0;
  const auto score_all = [&]() -> Status {
    for (; done < windows.count; ++done) {
      if (!bar.update(done, windows.count)) return interruption();
      PUMICE_CHECK(reader->read(windows.window(done), windows.first_scored, take));
      if (base) PUMICE_CHECK(base->status());
      set_last_words([text = result_text(options, device, windows, done + 1, score)] { return text; });
    }
    return {};
  };
  const Status scored = score_all();
  bar.erase();
  if (base && done > 0) PUMICE_CHECK(finish_base(options, *base, windows, done));
  PUMICE_CHECK(scored);
  set_last_words({});
  const std::string text = result_text(options, device, windows, windows.count, score);
  print_result(options.json ? text : fitted(text, stdout_columns()));
  if (!options.json)
    print_figures(fmt::format("{} ({})\n{}", device.name(), device.driver(), compiled_text()));
  return device.save_pipelines();
}

void add_measures(CLI::App& sub, PerplexityOptions& options) {
  constexpr const char* group = "Other measures";
  sub.add_option("--kl-divergence-base,--save-all-logits", options.base,
                 "Write the predictions of each scored token to this file, about two bytes for each token of "
                 "the vocabulary. It is llama.cpp's, which can read it and write it, too")
      ->type_name("FILE")
      ->group(group);
  CLI::Option* divergence =
      sub.add_flag("--kl-divergence", options.divergence,
                   "Read that file, and tell how far this model's predictions are from those: what "
                   "quantising costs. The text is in the file")
          ->group(group);
  sub.add_option(
         "--imatrix-out", options.importance,
         "Write an importance matrix instead: how large what each matrix reads is, over FILE. convert "
         "--imatrix reads it, and so does llama.cpp; matrices of experts are not in it")
      ->type_name("FILE")
      ->group(more_of(group))
      ->excludes(divergence)
      ->excludes("--kl-divergence-base")
      ->excludes("--stride");
  const auto tasks = [&](const char* name, bool& value, const char* help) {
    return sub.add_flag(name, value, help)
        ->group(group)
        ->excludes(divergence)
        ->excludes("--kl-divergence-base")
        ->excludes("--imatrix-out")
        ->excludes("--stride")
        ->excludes("--chunks");
  };
  CLI::Option* hellaswag =
      tasks("--hellaswag", options.hellaswag,
            "Count the tasks of FILE whose right ending the model finds most probable. Each has six lines: "
            "the scene, the number of the right ending from 0, and four endings");
  CLI::Option* winogrande =
      tasks("--winogrande", options.winogrande,
            "The same of sentences with two names. Each line of FILE has, with commas between them, a "
            "number, a sentence with _, two names and which one is meant, 1 or 2")
          ->excludes(hellaswag);
  tasks("--multiple-choice", options.multiple_choice,
        "The same of questions with any number of answers, in a binary file of llama.cpp's")
      ->excludes(hellaswag)
      ->excludes(winogrande);
  sub.add_option("--tasks", options.tasks,
                 "Number of tasks, chosen at random, always the same ones; 0 is all (default: 400 of "
                 "--hellaswag, else all)")
      ->type_name("N")
      ->check(within(0u, 1u << 30))
      ->group(group);
}

Status check_options(const PerplexityOptions& options) {
  const auto wrong = [](const char* what) { return Error{Code::invalid_argument, what}; };
  if (options.divergence && options.base.empty())
    return wrong("--kl-divergence needs --kl-divergence-base: a file with the predictions of the base model, "
                 "which a run without --kl-divergence writes");
  if (options.divergence && !options.text.empty())
    print_note("FILE has no effect: the text is the one in the file of --kl-divergence-base");
  if (!options.divergence && options.text.empty())
    return wrong("FILE is missing: give a text, or --kl-divergence with a file of --kl-divergence-base");
  if (options.divergence && options.size.context)
    return wrong("--context has no effect with --kl-divergence: windows are those of the file");
  if (options.stride && !options.base.empty())
    return wrong(
        "--stride and --kl-divergence-base do not go together: such files have windows side by side");
  if (options.tasks && !options.choices())
    return wrong("--tasks has an effect only with --hellaswag, --winogrande or --multiple-choice");
  return {};
}

Status perplexity(const PerplexityOptions& options) {
  PUMICE_CHECK(check_options(options));
  PUMICE_TRY(OpenedModel opened, OpenedModel::open(path_of(options.model), options.size.load.settings));
  MeasuredFile file{std::move(opened), nullptr, {}, {}, {}};
  file.shape = file.opened.definition->shape();
  PUMICE_CHECK(check_continues_text(file.opened.file, file.shape));
  PUMICE_TRY(file.tokenizer, load_tokenizer(file.opened.file));
  PUMICE_TRY(const NamedAdapters adapters, NamedAdapters::load(options.adapters, file.opened));
  file.adapter = adapters.usual();
  file.size = session_size(options.size, file.shape);
  const uint32_t longest = file.shape.context - std::min(options.stride / 2, file.shape.context - 1);
  if (!options.size.context) file.size.context = std::min(default_window, longest);
  if (options.stride > file.size.context) {
    return Error{Code::invalid_argument, fmt::format("--stride {} is longer than a window (--context {})",
                                                     options.stride, file.size.context)};
  }
  if (!options.importance.empty()) {
    PUMICE_TRY(const TextWindows windows, windows_of(options, file));
    return write_importance(options, std::move(file), windows);
  }
  if (options.choices()) return measure_choices(options, std::move(file));
  return options.divergence ? measure_divergence(options, std::move(file))
                            : measure_text(options, std::move(file));
}

} // namespace

std::optional<uint32_t> MeasuredFile::begin() const {
  const std::vector<uint32_t> empty = tokenizer->encode("", true);
  return !empty.empty() && empty[0] == tokenizer->bos() ? std::optional(empty[0]) : std::nullopt;
}

Subcommand add_perplexity(CLI::App& app) {
  CLI::App* sub = app.add_subcommand("perplexity", "Measure how well a model predicts a text.");
  auto options = std::make_shared<PerplexityOptions>();
  sub->add_option("MODEL", options->model, "A GGUF file or a Hugging Face folder")->required()->type_name("");
  sub->add_option("FILE", options->text,
                  "A text file in UTF-8; '-' is standard input. As in llama.cpp, it is split into windows of "
                  "--context tokens, and "
                  "the second half of each window is scored. With --hellaswag and so on, a file of tasks")
      ->type_name("");
  sub->add_option("--chunks", options->windows, "Maximum number of windows to score (default: all)")
      ->type_name("N")
      ->check(within(1u, 1u << 30))
      ->group("Text");
  sub->add_option("--stride", options->stride,
                  "Begin a window every N tokens, and score the last N of each: more text comes before each "
                  "token. A window has N / 2 tokens more")
      ->type_name("N")
      ->check(within(1u, 1u << 20))
      ->group("Text");
  add_measures(*sub, *options);
  sub->add_flag("--json", options->json,
                "Print one JSON object. Its fields: perplexity, error, mean_negative_log_likelihood, "
                "tokens_scored, chunks, context, device, driver; with --kl-divergence those of its table; "
                "with tasks accuracy, low, high, tasks, right")
      ->group("Text");
  add_adapter_option(*sub, options->adapters);
  add_size_options(*sub, options->size, "f32");
  add_settings_options(*sub, options->size.load);
  sub->get_option("--context")
      ->description(
          fmt::format("Number of tokens of a window (default: {}, or the model's context if that is "
                      "smaller)",
                      default_window))
      ->check(within(3u, 1u << 24));
  add_device_options(*sub, options->device);
  add_stage_options(*sub, options->device);
  sub->footer("A lower perplexity is better.\n\n" +
              example("pumice perplexity models/pretrained/stories-2m.gguf stories.txt --context 256"));
  return {sub,
          [options] { return perplexity(*options); },
          {},
          [options] { return serve_stage(options->model, options->device, options->size.load); },
          &options->device.timeout};
}

} // namespace pumice::command
