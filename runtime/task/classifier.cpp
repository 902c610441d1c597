#include "task/classifier.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <numeric>

#include <fmt/format.h>

#include "task/model_kind.h"

namespace pumice {

namespace {

Result<Scoring> scoring_of(const ModelFile& file, size_t labels) {
  PUMICE_TRY(const std::string problem, file.fields().string_or("problem_type", ""));
  if (problem == "regression") return Scoring::raw;
  return problem == "multi_label_classification" || labels == 1 ? Scoring::sigmoid : Scoring::softmax;
}

// A model with a head for its own labels.
Result<ClassifierPlan> with_head(const ModelFile& file, const ModelDefinition& definition,
                                 std::shared_ptr<const Tokenizer> loaded, bool ids) {
  const ModelShape shape = definition.shape();
  if (shape.has_decoder()) return wrong_subcommand(file);
  PUMICE_TRY(const EncoderGraph graph, definition.encoder_graph(file));
  if (shape.encoder->token_head == TokenHead::answers) return wrong_kind(file, "it finds answers in texts");
  if (!graph.readable.contains("logits") || shape.encoder->labels.empty()) {
    return wrong_kind(file, "it has no classification head");
  }
  ClassifierPlan plan;
  plan.labels = shape.encoder->labels;
  if (const nlohmann::json* named = file.fields().find("id2label");
      named && named->size() != plan.labels.size())
    plan.named = named->size();
  PUMICE_TRY(plan.scoring, scoring_of(file, plan.labels.size()));
  PUMICE_TRY(plan.model, shape.encoder->kind == InputKind::tokens
                             ? TaskModel::of_texts(file, std::move(loaded), ids)
                             : TaskModel::of_pictures(file));
  plan.model.output = "logits";
  return plan;
}

// A model in whose space labels are texts.
Result<ClassifierPlan> with_labels(const ModelFile& file, const SharedSpace& space,
                                   const ClassifierOptions& options,
                                   std::shared_ptr<const Tokenizer> loaded) {
  ClassifierPlan plan;
  const size_t at = options.sentence.find("{}");
  if (at == std::string::npos) {
    return Error{Code::invalid_argument,
                 fmt::format("--sentence '{}': expected {{}} where the label goes", options.sentence)};
  }
  for (const std::string& label : options.labels) {
    plan.sentences.push_back(options.sentence.substr(0, at) + label + options.sentence.substr(at + 2));
  }
  plan.labels = options.labels;
  plan.scoring = space.each_by_itself ? Scoring::sigmoid : Scoring::softmax;
  plan.space = space;
  PUMICE_TRY(plan.texts, TaskModel::of_texts(file, std::move(loaded)));
  plan.texts->output = SharedSpace::text;
  PUMICE_TRY(plan.model, TaskModel::of_pictures(file));
  plan.model.output = SharedSpace::picture;
  return plan;
}

std::vector<float> scores_of(std::vector<float> logits, Scoring scoring) {
  if (scoring == Scoring::sigmoid) {
    for (float& logit : logits) logit = 1 / (1 + std::exp(-logit));
  } else if (scoring == Scoring::softmax) {
    const float largest = *std::ranges::max_element(logits);
    float sum = 0;
    for (float& logit : logits) sum += logit = std::exp(logit - largest);
    for (float& logit : logits) logit /= sum;
  }
  return logits;
}

} // namespace

Result<ClassifierPlan> ClassifierPlan::of(const ModelFile& file, const ClassifierOptions& options,
                                          std::shared_ptr<const Tokenizer> loaded) {
  PUMICE_TRY(const std::unique_ptr<ModelDefinition> definition, open_model_definition(file));
  const ModelShape shape = definition->shape();
  if (shape.shared_space && options.labels.empty()) {
    return wrong_kind(file.path(), shape, "it has no labels of its own: name a file of them with --labels");
  }
  if (!shape.shared_space && !options.labels.empty()) {
    return wrong_kind(file.path(), shape,
                      "--labels is for models of texts and pictures in one space, such as CLIP");
  }
  PUMICE_TRY(ClassifierPlan plan, shape.shared_space
                                      ? with_labels(file, *shape.shared_space, options, std::move(loaded))
                                      : with_head(file, *definition, std::move(loaded), options.run.ids));
  plan.run = options.run;
  return plan;
}

Result<std::vector<float>> ClassifierPlan::embed_labels(std::shared_ptr<const Model> model) const {
  RunOptions all = run;
  all.inputs = static_cast<uint32_t>(sentences.size());
  PUMICE_TRY(const std::unique_ptr<InputRunner> runner, InputRunner::create(std::move(model), *texts, all));
  std::vector<EncoderInput> inputs;
  for (const std::string& sentence : sentences) {
    PUMICE_TRY(EncoderInput input, runner->read(sentence, "--labels"));
    inputs.push_back(std::move(input));
  }
  std::vector<float> vectors;
  PUMICE_CHECK(runner->run(inputs, [&](size_t, const std::vector<float>& row) -> Status {
    vectors.insert(vectors.end(), row.begin(), row.end());
    return {};
  }));
  return vectors;
}

Result<std::unique_ptr<Classifier>> Classifier::create(std::shared_ptr<const Model> model,
                                                       ClassifierPlan plan, std::vector<float> label_vectors,
                                                       const Making& making) {
  std::unique_ptr<Classifier> result(new Classifier(std::move(plan), std::move(label_vectors)));
  PUMICE_TRY(result->runner_,
             InputRunner::create(std::move(model), result->plan_.model, result->plan_.run, 0, making));
  return result;
}

std::vector<float> Classifier::scores(std::vector<float> row) const {
  if (label_vectors_.empty()) return scores_of(std::move(row), plan_.scoring);
  std::vector<float> logits(plan_.labels.size());
  for (size_t label = 0; label < logits.size(); ++label) {
    const auto text = label_vectors_.begin() + static_cast<ptrdiff_t>(label * row.size());
    const double cosine = std::inner_product(row.begin(), row.end(), text, 0.0);
    logits[label] = static_cast<float>(plan_.space.scale * cosine + plan_.space.bias);
  }
  return scores_of(std::move(logits), plan_.scoring);
}

} // namespace pumice
