#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "task/input_runner.h"
#include "task/late/late_interaction.h"
#include "task/rerank_template.h"

namespace pumice {

struct RerankerOptions {
  std::string instruction; // of a decoder: what a text has to do for the query; empty: the usual one
  bool raw = false;        // logits in place of probabilities
  RunOptions run;
};

// How pairs of a query and a text become tokens, and logits scores: an encoder has a head for pairs, or
// compares vectors of their tokens; a decoder reads a template and either has a head or answers yes or no.
struct RerankerPlan {
  TaskModel model;
  std::optional<RerankTemplate> form; // of a decoder
  std::optional<AnswerIds> answers;   // of one without a head
  std::optional<LateInteraction> late;
  bool raw = false;
  RunOptions run;

  // `loaded`: the tokenizer, if it is there already. Errors: a model that scores no pairs, an instruction for
  // an encoder.
  static Result<RerankerPlan> of(const ModelFile& file, const RerankerOptions& options,
                                 std::shared_ptr<const Tokenizer> loaded = nullptr);
};

// Scores how well texts answer a query. A score is a probability: for one label the sigmoid of its logit, for
// several the softmax probability of label 1, for a decoder without labels that of yes against no. Of late
// interaction it is no probability: a sum over the query's tokens.
class Reranker {
public:
  // `model`: loaded with plan.model.load().
  static Result<std::unique_ptr<Reranker>> create(std::shared_ptr<const Model> model, RerankerPlan plan,
                                                  const Making& making = {});

  Result<EncoderInput> read(const std::string& query, const std::string& text, const std::string& name);
  // The score of a pair, of the row that the runner gives for the text that was read.
  float score(const std::string& text, const std::vector<float>& row) const;
  InputRunner& runner() { return *runner_; }

private:
  explicit Reranker(RerankerPlan plan) : plan_(std::move(plan)) {}
  // Of late interaction: the vectors of a query, which is read once.
  Status read_query(const std::string& query);

  const RerankerPlan plan_;
  std::unique_ptr<InputRunner> runner_;
  std::optional<std::string> query_; // that was read last
  std::vector<float> query_vectors_;
};

} // namespace pumice
