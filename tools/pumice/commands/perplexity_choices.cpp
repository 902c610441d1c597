// `pumice perplexity --hellaswag`, --winogrande and --multiple-choice.
#include <algorithm>

#include <fmt/format.h>

#include "commands/perplexity.h"
#include "input/input_stream.h"
#include "terminal/counted.h"
#include "terminal/terminal.h"

namespace pumice::command {

namespace {

constexpr uint32_t default_hellaswag_tasks = 400; // as llama.cpp
constexpr size_t most_together = 16;              // answers of a task in one step

Result<std::vector<ChoiceTask>> tasks_of(const PerplexityOptions& options) {
  const ChoiceKind kind = *options.choices();
  const size_t count = options.tasks.value_or(kind == ChoiceKind::hellaswag ? default_hellaswag_tasks : 0);
  std::string text;
  if (kind == ChoiceKind::multiple_choice) {
    InputStream stream(options.text); // not text, but bytes
    PUMICE_TRY(text, read_all(stream));
  } else {
    PUMICE_TRY(text, read_text(options.text));
  }
  return read_choice_tasks(kind, std::as_bytes(std::span(text)), input_name(options.text), count);
}

// The tasks so far.
struct Tally {
  size_t right = 0, done = 0;
  double chances = 0; // of a random choice, added up

  void add(const ChoiceTask& task, const Choice& choice) {
    ++done;
    right += choice.right;
    chances +=
        static_cast<double>(std::ranges::count(task.right, true)) / static_cast<double>(task.right.size());
  }
  double chance() const { return chances / static_cast<double>(done); }
};

std::string result_text(const PerplexityOptions& options, const OpenedDevice& device, const Tally& tally,
                        size_t all) {
  const Share share = share_of(tally.right, tally.done);
  const bool partial = tally.done < all;
  if (!options.json) {
    return fmt::format("accuracy {:.2f} %, 95 % interval {:.2f} to {:.2f} %{} ({} right in {}{}; a random "
                       "choice: {:.2f} %)\n",
                       share.value * 100, share.low * 100, share.high * 100, partial ? " so far" : "",
                       tally.right, counted(tally.done, "task"), partial ? fmt::format(" of {}", all) : "",
                       tally.chance() * 100);
  }
  Json json;
  json["accuracy"] = share.value;
  json["low"] = share.low;
  json["high"] = share.high;
  json["chance"] = tally.chance();
  json["right"] = tally.right;
  json["tasks"] = tally.done;
  json["partial"] = partial;
  add_device(json, device);
  return json_text(json);
}

} // namespace

Status measure_choices(const PerplexityOptions& options, MeasuredFile file) {
  PUMICE_TRY(const std::vector<ChoiceTask> tasks, tasks_of(options));
  size_t answers = 0;
  for (const ChoiceTask& task : tasks) answers = std::max(answers, task.texts.size());
  file.size.sequences = static_cast<uint32_t>(std::min(answers, most_together));
  PUMICE_TRY(OpenedDevice device, open_device(options.device));
  PUMICE_TRY(std::shared_ptr<const Model> model,
             load_model(std::move(file.opened), device, options.size.load, &options.size));
  PUMICE_TRY(const std::unique_ptr<ContinuationScorer> scorer,
             ContinuationScorer::create(model, file.size, file.adapter));
  Tally tally;
  ProgressBar bar("answering");
  for (const ChoiceTask& task : tasks) {
    if (!bar.update(tally.done, tasks.size())) return interruption();
    PUMICE_TRY(const Choice choice, choose(*scorer, *file.tokenizer, task));
    tally.add(task, choice);
    set_last_words([text = result_text(options, device, tally, tasks.size())] { return text; });
  }
  set_last_words({});
  bar.erase();
  print_result(result_text(options, device, tally, tasks.size()));
  if (!options.json)
    print_figures(fmt::format("{} ({})\n{}", device.name(), device.driver(), compiled_text()));
  return device.save_pipelines();
}

} // namespace pumice::command
