#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "loading/line_encoder.h"
#include "loading/model_kind.h"
#include "loading/rerank_template.h"
#include "options/prompt.h"
#include "options/subcommand.h"
#include "output/json_output.h"
#include "terminal/terminal.h"

namespace pumice::command {

namespace {

struct RerankOptions {
  LineOptions lines;
  std::string query;
  std::string instruction; // of a decoder; empty: the usual one
  TextOptions texts;
  uint32_t top = 0; // 0: all, in the order of the input
  bool raw = false;
  bool json = false;
};

struct Scored {
  float score = 0;
  uint64_t index = 0;
  std::string line;
};

// For one label, its sigmoid; for several, the softmax probability of label 1.
float score_of(const std::vector<float>& logits, bool raw) {
  if (raw) return logits.size() == 1 ? logits[0] : logits[1];
  if (logits.size() == 1) return static_cast<float>(1 / (1 + std::exp(-double{logits[0]})));
  double sum = 0;
  for (float logit : logits) sum += std::exp(double{logit} - logits[1]);
  return static_cast<float>(1 / sum);
}

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

Status check_scores(const TextEncoder& model) {
  PUMICE_TRY(const EncoderGraph graph, model.definition->encoder_graph(model.file));
  if (graph.readable.contains("logits")) return {};
  return wrong_kind(model.file.path(), model.definition->shape(),
                    "it has no sequence-classification head that scores pairs (tensor 'classifier.weight'); "
                    "use pumice embed");
}

// How pairs become tokens, and logits scores: an encoder has a head for pairs; a decoder reads a template and
// either has a head or answers yes or no.
struct PairScorer {
  LineEncoder::Encode encode;
  std::function<float(const std::vector<float>& logits)> score;
};

Result<PairScorer> pair_scorer(const RerankOptions& options, const TextEncoder& model) {
  const EncoderShape shape = *model.definition->shape().encoder;
  const std::shared_ptr<const Tokenizer> tokenizer = model.tokenizer;
  PairScorer scorer;
  scorer.score = [raw = options.raw](const std::vector<float>& logits) { return score_of(logits, raw); };
  if (!shape.causal) {
    if (!options.instruction.empty()) {
      return Error{Code::invalid_argument,
                   fmt::format("--instruction is for decoders, and {} is an encoder", options.lines.model)};
    }
    scorer.encode = [tokenizer, query = options.query](const std::string& line, size_t limit) {
      return tokenizer->encode_pair(query, line, limit);
    };
    return scorer;
  }
  PUMICE_TRY(RerankTemplate form, RerankTemplate::open(model.file, tokenizer, options.instruction));
  scorer.encode = [form = std::move(form), query = options.query](const std::string& line, size_t limit) {
    return form.encode(query, line, limit);
  };
  if (!shape.labels.empty()) return scorer;
  PUMICE_TRY(const AnswerIds answers, find_answers(model.file, *tokenizer));
  scorer.score = [answers, raw = options.raw](const std::vector<float>& logits) {
    return score_of({logits[answers.yes] - logits[answers.no]}, raw);
  };
  return scorer;
}

Status rerank(const RerankOptions& options) {
  PUMICE_CHECK(check_utf8(options.query, "--query"));
  PUMICE_CHECK(check_utf8(options.instruction, "--instruction"));
  PUMICE_TRY(TextEncoder model, open_text_encoder(options.lines.model));
  PUMICE_CHECK(check_scores(model));
  PUMICE_TRY(const PairScorer scorer, pair_scorer(options, model));
  PUMICE_TRY(std::unique_ptr<LineEncoder> encoder,
             LineEncoder::create(std::move(model), options.lines, "logits"));
  WaitingLines source(options.texts);
  std::vector<Scored> best;
  PUMICE_CHECK(
      encoder->run(source, scorer.encode, [&](const Line& line, const std::vector<float>& logits) -> Status {
        Scored scored{scorer.score(logits), line.number - 1, line.text};
        if (options.top) {
          keep_best(best, std::move(scored), options.top);
        } else {
          print(options, scored);
        }
        return {};
      }));
  for (const Scored& scored : best) print(options, scored);
  return encoder->finish();
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
         "--instruction", options->instruction,
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
         "--raw", options->raw,
         "Print the model's logit instead of a probability. With several labels, it is that of label 1")
      ->group("Scores");
  sub->add_flag("--json", options->json,
                "Print one JSON object for each text. Its fields: index (from 0), score, text")
      ->group("Scores");
  sub->footer(
      "Prints 'SCORE<tab>TEXT' for each text, in the order of the texts. The score is a probability, 0 to 1: "
      "for a model with one label the sigmoid of its logit, for a model with several labels the softmax "
      "probability of label 1, for a decoder without labels the probability of yes against no. If a query "
      "and "
      "a text are together longer than the model's context, the longer of the two is cut, for a decoder the "
      "text.\n\n" +
      example("pumice rerank cross-encoder-folder --query 'how?' < passages.txt"));
  return {sub, [options] { return rerank(*options); }};
}

} // namespace pumice::command
