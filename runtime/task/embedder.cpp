#include "task/embedder.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "task/model_kind.h"

namespace pumice {

namespace {

Status check_dimensions(uint32_t wanted, uint32_t columns) {
  if (wanted <= columns) return {};
  return Error{Code::invalid_argument,
               fmt::format("--dimensions {}: the model's vectors have {}", wanted, columns)};
}

} // namespace

Result<EmbedderPlan> EmbedderPlan::of_texts(const ModelFile& file, const EmbedderOptions& options,
                                            std::shared_ptr<const Tokenizer> loaded) {
  PUMICE_TRY(TaskModel model, TaskModel::of_texts(file, std::move(loaded), options.run.ids));
  return of_texts(file, std::move(model), options);
}

Result<EmbedderPlan> EmbedderPlan::of_texts(const ModelFile& file, TaskModel model,
                                            const EmbedderOptions& options) {
  EmbedderPlan plan;
  plan.model = std::move(model);
  PUMICE_TRY(plan.settings, read_sentence_settings(file, options.pooling));
  if (plan.settings.of_tokens && !options.sparse) {
    return wrong_kind(file,
                      "it compares texts token by token (late interaction) and has no vector of a whole one");
  }
  plan.before = options.prefix;
  if (options.prefix.empty()) {
    PUMICE_TRY(plan.before, plan.settings.prompt(file.path(), options.prompt));
  }
  const ModelShape shape = plan.model.definition->shape();
  plan.model.output = shape.shared_space ? SharedSpace::text : pooled_tensor(plan.settings, *shape.encoder);
  plan.normalize = options.normalize.value_or(plan.settings.normalized);
  plan.dimensions = options.dimensions;
  plan.run = options.run;
  if (options.sparse || (plan.settings.sparse && options.pooling.empty())) {
    PUMICE_CHECK(plan.make_sparse(file));
    return plan;
  }
  if (shape.shared_space) return plan; // its columns are known when it is loaded
  PUMICE_CHECK(check_dimensions(plan.dimensions, plan.settings.columns(shape.encoder->hidden)));
  return plan;
}

Status EmbedderPlan::make_sparse(const ModelFile& file) {
  constexpr uint32_t usual_tokens = 512; // logits of each take much memory
  model.output = "sparse_embedding";
  sparse = true;
  settings.max_tokens = std::min(settings.max_tokens ? settings.max_tokens : usual_tokens, usual_tokens);
  PUMICE_TRY(const EncoderGraph graph, model.definition->encoder_graph(file));
  if (graph.readable.contains(model.output)) return {};
  return wrong_kind(file, "it has no head of a masked language model, of which sparse vectors are made");
}

Result<EmbedderPlan> EmbedderPlan::of_pictures(const ModelFile& file, const EmbedderOptions& options) {
  EmbedderPlan plan;
  PUMICE_TRY(plan.model, TaskModel::of_pictures(file));
  PUMICE_TRY(const std::unique_ptr<ModelDefinition> main, open_model_definition(file));
  const bool with_texts = plan.model.tower == Tower::pictures;
  if (with_texts && !main->shape().shared_space) {
    return Error{
        Code::unsupported,
        fmt::format("{}: its rows of pictures are for its decoder alone; use pumice caption", file.path())};
  }
  plan.model.output = with_texts
                          ? std::string(SharedSpace::picture)
                          : "sentence_embedding_" + (options.pooling.empty() ? "cls" : options.pooling);
  plan.dimensions = options.dimensions;
  plan.normalize = options.dimensions > 0; // the model's own rows have the length 1
  plan.run = options.run;
  return plan;
}

Result<std::unique_ptr<Embedder>> Embedder::create(std::shared_ptr<const Model> model, EmbedderPlan plan,
                                                   const Making& making) {
  std::unique_ptr<Embedder> result(new Embedder(std::move(plan)));
  const EmbedderPlan& kept_plan = result->plan_;
  PUMICE_TRY(result->runner_, InputRunner::create(std::move(model), kept_plan.model, kept_plan.run,
                                                  kept_plan.settings.max_tokens, making));
  if (kept_plan.sparse) return result;
  PUMICE_CHECK(
      check_dimensions(kept_plan.dimensions, kept_plan.settings.columns(result->runner_->columns())));
  return result;
}

Result<EncoderInput> Embedder::read(const std::string& text, const std::string& name) {
  return runner_->read(plan_.before + text, name);
}

std::vector<float> Embedder::vector(std::vector<float> row) const {
  if (plan_.sparse) {
    for (float& value : row) value = std::log1p(value);
    return row;
  }
  return finish_vector(plan_.settings, std::move(row), plan_.dimensions, plan_.normalize);
}

uint32_t Embedder::columns() const {
  if (plan_.sparse) return runner_->columns();
  return plan_.dimensions ? plan_.dimensions : plan_.settings.columns(runner_->columns());
}

} // namespace pumice
