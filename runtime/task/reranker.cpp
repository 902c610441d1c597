#include "task/reranker.h"

#include <cmath>

#include <fmt/format.h>

#include "task/model_kind.h"

namespace pumice {

namespace {

float score_of(std::span<const float> logits, bool raw) {
  if (raw) return logits.size() == 1 ? logits[0] : logits[1];
  if (logits.size() == 1) return static_cast<float>(1 / (1 + std::exp(-double{logits[0]})));
  double sum = 0;
  for (float logit : logits) sum += std::exp(double{logit} - logits[1]);
  return static_cast<float>(1 / sum);
}

} // namespace

Result<RerankerPlan> RerankerPlan::of(const ModelFile& file, const RerankerOptions& options,
                                      std::shared_ptr<const Tokenizer> loaded) {
  RerankerPlan plan;
  PUMICE_TRY(plan.model, TaskModel::of_texts(file, std::move(loaded)));
  plan.model.output = "logits";
  plan.raw = options.raw;
  plan.run = options.run;
  PUMICE_TRY(plan.late, LateInteraction::read(file, plan.model.tokenizer, plan.model.shape().context));
  if (plan.late) {
    plan.model.output = "last_hidden_state";
    plan.model.each_token = true;
    return plan;
  }
  PUMICE_TRY(const EncoderGraph graph, plan.model.definition->encoder_graph(file));
  const EncoderShape shape = plan.model.shape();
  if (!graph.readable.contains(plan.model.output) || (shape.labels.empty() && !shape.causal)) {
    return wrong_kind(
        file, "it has no sequence-classification head that scores pairs (tensor 'classifier.weight')");
  }
  if (!shape.causal) {
    if (options.instruction.empty()) return plan;
    return Error{Code::invalid_argument,
                 fmt::format("--instruction is for decoders, and {} is an encoder", file.path())};
  }
  PUMICE_TRY(plan.form, RerankTemplate::open(file, plan.model.tokenizer, options.instruction));
  if (shape.labels.empty()) {
    PUMICE_TRY(plan.answers, find_answers(file, *plan.model.tokenizer));
  }
  return plan;
}

Result<std::unique_ptr<Reranker>> Reranker::create(std::shared_ptr<const Model> model, RerankerPlan plan,
                                                   const Making& making) {
  std::unique_ptr<Reranker> result(new Reranker(std::move(plan)));
  const RerankerPlan& kept = result->plan_;
  PUMICE_TRY(result->runner_, InputRunner::create(std::move(model), kept.model, kept.run,
                                                  kept.late ? kept.late->text_tokens() : 0, making));
  return result;
}

Status Reranker::read_query(const std::string& query) {
  if (query_ == query) return {};
  const EncoderInput input = plan_.late->query(query);
  PUMICE_TRY(const std::vector<std::vector<float>> rows, runner_->run(std::span(&input, 1)));
  query_vectors_ = plan_.late->vectors(rows[0]);
  query_ = query;
  return {};
}

Result<EncoderInput> Reranker::read(const std::string& query, const std::string& text,
                                    const std::string& name) {
  if (plan_.late) {
    PUMICE_CHECK(read_query(query));
    return runner_->read([&](size_t limit) { return plan_.late->text(text, limit); }, name);
  }
  const auto encode = [&](size_t limit) {
    return plan_.form ? plan_.form->encode(query, text, limit)
                      : plan_.model.tokenizer->encode_pair(query, text, limit);
  };
  return runner_->read(encode, name);
}

float Reranker::score(const std::string& text, const std::vector<float>& row) const {
  if (plan_.late) return plan_.late->score(query_vectors_, plan_.late->vectors(text, runner_->limit(), row));
  if (!plan_.answers) return score_of(row, plan_.raw);
  const float against_no = row[plan_.answers->yes] - row[plan_.answers->no];
  return score_of({&against_no, 1}, plan_.raw);
}

} // namespace pumice
