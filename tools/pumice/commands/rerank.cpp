#include <algorithm>
#include <optional>

#include <fmt/format.h>

#include "loading/task_inputs.h"
#include "options/prompt.h"
#include "options/subcommand.h"
#include "output/json_output.h"
#include "task/reranker.h"
#include "terminal/terminal.h"

namespace pumice::command {

namespace {

struct RerankOptions {
  LineOptions lines;
  std::string query;
  RerankerOptions scores;
  TextOptions texts;
  uint32_t top = 0; // 0: all, in the order of the input
  bool json = false;
};

struct Scored {
  float score = 0;
  uint64_t index = 0;
  std::string line;
};

void print(const RerankOptions& options, const Scored& scored) {
  if (options.json) {
    print_json({{"index", scored.index}, {"score", scored.score}, {"text", scored.line}});
  } else {
    print_result(fmt::format("{}\t{}\n", scored.score, scored.line));
  }
}

// Adds a text to the `most` best ones, which are sorted best first. Of equal scores, the earlier text comes
// first.
void keep_best(std::vector<Scored>& best, Scored scored, size_t most) {
  const auto better = [](const Scored& a, const Scored& b) { return a.score > b.score; };
  best.insert(std::ranges::upper_bound(best, scored, better), std::move(scored));
  if (best.size() > most) best.pop_back();
}

Status rerank(const RerankOptions& options) {
  PUMICE_CHECK(check_utf8(options.query, "--query"));
  PUMICE_CHECK(check_utf8(options.scores.instruction, "--instruction"));
  PUMICE_TRY(ModelFile file, ModelFile::open(path_of(options.lines.model)));
  RerankerOptions all = options.scores;
  all.run = options.lines.run;
  PUMICE_TRY(RerankerPlan plan, RerankerPlan::of(file, all));
  PUMICE_TRY(const OpenedDevice device, open_device(options.lines.device));
  PUMICE_TRY(std::shared_ptr<const Model> model,
             load_model(std::move(file), device, plan.model.load(options.lines.load)));
  PUMICE_TRY(const std::unique_ptr<Reranker> reranker, Reranker::create(std::move(model), std::move(plan)));
  WaitingLines source(options.texts);
  source.answer_bad_with([&](const Line& line, const Error& error) {
    return options.json
               ? json_text({{"index", line.number - 1}, {"text", line.text}, {"error", error.text()}})
               : std::string();
  });
  TaskInputs inputs(device, reranker->runner());
  std::vector<Scored> best;
  std::optional<SavedWork> saved; // the best until Ctrl-C
  const Status status = inputs.run(
      source,
      [&](const std::string& text, const std::string& name) {
        return reranker->read(options.query, text, name);
      },
      [&](const Line& line, const std::vector<float>& row) -> Status {
        Scored scored{reranker->score(line.text, row), line.number - 1, line.text};
        if (options.top) {
          if (!saved) saved.emplace();
          keep_best(best, std::move(scored), options.top);
        } else {
          print(options, scored);
        }
        return {};
      });
  for (const Scored& scored : best) print(options, scored); // also those before an error
  PUMICE_CHECK(status);
  return inputs.finish();
}

} // namespace

Subcommand add_rerank(CLI::App& app) {
  CLI::App* sub = app.add_subcommand("rerank", "Score how well each line of text answers a query.");
  auto options = std::make_shared<RerankOptions>();
  add_line_options(*sub, options->lines);
  add_text_options(*sub, options->texts, "TEXT", "The texts; without TEXT, the lines of standard input");
  sub->add_option("--query", options->query, "The query that each text is scored for")
      ->type_name("TEXT")
      ->required()
      ->group("Scores");
  sub->add_option(
         "--instruction", options->scores.instruction,
         "For a decoder: what a text has to do for the query (default: the model's, or that it answers "
         "the query)")
      ->type_name("TEXT")
      ->group("Scores");
  sub->add_option("--top", options->top,
                  "Print only the N best texts, best first. Without it, all are printed, as they came")
      ->type_name("N")
      ->check(within(1u, 1u << 30))
      ->group("Scores");
  sub->add_flag(
         "--raw", options->scores.raw,
         "Print the model's logit instead of a probability. With several labels, it is that of label 1")
      ->group("Scores");
  sub->add_flag("--json", options->json,
                "Print one JSON object for each text. Its fields: index (from 0), text, and score or error")
      ->group("Scores");
  sub->footer(
      "Prints 'SCORE<tab>TEXT' for each text, in the order of the texts. The score is a probability, 0 to 1: "
      "for a model with one label the sigmoid of its logit, for a model with several labels the softmax "
      "probability of label 1, for a decoder without labels the probability of yes against no. A model of "
      "late "
      "interaction (ColBERT) has no probabilities: its score is the sum, over the query's tokens, of the "
      "largest cosine with a token of the text. If a query "
      "and "
      "a text are together longer than the model's context, the longer of the two is cut, for a decoder the "
      "text.\n\n" +
      example("pumice rerank cross-encoder-folder --query 'how?' < passages.txt"));
  return {sub, [options] { return rerank(*options); }};
}

} // namespace pumice::command
