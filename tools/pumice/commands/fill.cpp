#include <fmt/format.h>

#include "loading/task_inputs.h"
#include "options/option_values.h"
#include "options/prompt.h"
#include "options/subcommand.h"
#include "output/json_output.h"
#include "task/filler.h"
#include "terminal/terminal.h"

namespace pumice::command {

namespace {

struct FillOptions {
  LineOptions lines;
  TextOptions texts;
  FillerOptions words;
  bool json = false;
};

void print_fills(const FillOptions& options, const Filler& filler, const std::string& text,
                 const std::vector<std::vector<Filler::Fill>>& gaps) {
  Json json = {{"text", text}, {"gaps", Json::array()}};
  const std::string name = options.texts.texts.size() == 1 ? "" : text + "\t";
  std::string lines;
  for (size_t gap = 0; gap < gaps.size(); ++gap) {
    Json words = Json::array();
    const std::string number = gaps.size() > 1 ? fmt::format("{}\t", gap + 1) : "";
    for (const Filler::Fill& fill : gaps[gap]) {
      const std::string filled = filler.filled(text, gap, fill);
      words.push_back(
          {{"word", fill.word}, {"id", fill.token}, {"probability", fill.probability}, {"text", filled}});
      lines += fmt::format("{}{}{:.4f}\t{}\t{}\n", name, number, fill.probability, fill.word, filled);
    }
    json["gaps"].push_back(std::move(words));
  }
  if (options.json) return print_json(json);
  print_result(lines);
}

Status fill(const FillOptions& options) {
  PUMICE_TRY(ModelFile file, ModelFile::open(path_of(options.lines.model)));
  FillerOptions words = options.words;
  words.run = options.lines.run;
  PUMICE_TRY(FillerPlan plan, FillerPlan::of(file, words));
  PUMICE_TRY(const OpenedDevice device, open_device(options.lines.device));
  PUMICE_TRY(std::shared_ptr<const Model> model,
             load_model(std::move(file), device, plan.model.load(options.lines.load)));
  PUMICE_TRY(const std::unique_ptr<Filler> filler, Filler::create(std::move(model), std::move(plan)));
  WaitingLines lines(options.texts);
  lines.answer_bad_with([&](const Line& line, const Error& error) {
    return options.json ? json_text({{"text", line.text}, {"error", error.text()}}) : std::string();
  });
  TaskInputs inputs(device, filler->runner());
  PUMICE_CHECK(inputs.run(
      lines, [&](const std::string& text, const std::string& name) { return filler->read(text, name); },
      [&](const Line& line, const std::vector<float>& rows) -> Status {
        print_fills(options, *filler, line.text, filler->fills(rows));
        return {};
      }));
  return inputs.finish();
}

} // namespace

Subcommand add_fill(CLI::App& app) {
  CLI::App* sub = app.add_subcommand("fill", "Find the most probable words for the gaps of texts.");
  auto options = std::make_shared<FillOptions>();
  add_line_options(*sub, options->lines);
  sub->get_option("MODEL")->description(
      "A Hugging Face folder of a masked language model (BERT, RoBERTa, ModernBERT ...)");
  add_text_options(*sub, options->texts, "TEXT",
                   "Texts with gaps, written as [MASK] or <mask>; without TEXT, the lines of standard input");
  sub->add_option("--top", options->words.top, "Number of words for each gap, most probable first")
      ->type_name("N")
      ->check(within(1u, 1u << 24))
      ->capture_default_str()
      ->group("Output");
  sub->add_flag(
         "--json", options->json,
         "Print one JSON object for each text. Its fields: text, and gaps (for each a list of word, id, "
         "probability, and text with the word in it) or error")
      ->group("Output");
  sub->footer("Prints lines of a probability, a tab, a word, a tab, and the text with that word. Where a "
              "text has several "
              "gaps, the gap's number and a tab come first, and each gap is filled by itself; unless exactly "
              "one TEXT is "
              "given, the text and a tab come before that.\n\n" +
              example("pumice fill bert-base-uncased \"The capital of France is [MASK].\" --top 3"));
  return {sub, [options] { return fill(*options); }, {{"MODEL", "--file"}}};
}

} // namespace pumice::command
