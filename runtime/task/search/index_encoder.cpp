#include "task/search/index_encoder.h"

#include <string_view>

#include <fmt/format.h>

namespace pumice {

namespace {

// Of late interaction: passages and queries are read as a reranker reads texts.
TextIndexPlan late_plan(TaskModel model, LateInteraction late, const TextIndexOptions& options) {
  TextIndexPlan plan;
  EmbedderPlan& embedder = plan.embedder;
  embedder.model = std::move(model);
  embedder.model.output = "last_hidden_state";
  embedder.model.each_token = true;
  embedder.settings.max_tokens = late.text_tokens();
  embedder.before = options.text_prefix;
  embedder.run = options.run;
  plan.before_query = options.query_prefix;
  plan.late = std::move(late);
  return plan;
}

} // namespace

Result<TextIndexPlan> TextIndexPlan::of(const ModelFile& file, const TextIndexOptions& options,
                                        std::shared_ptr<const Tokenizer> loaded) {
  TextIndexPlan plan;
  PUMICE_TRY(TaskModel model, TaskModel::of_texts(file, std::move(loaded)));
  if (options.pooling.empty() && !options.dimensions && !options.sparse) {
    PUMICE_TRY(std::optional<LateInteraction> late,
               LateInteraction::read(file, model.tokenizer, model.shape().context));
    if (late) return late_plan(std::move(model), *std::move(late), options);
  }
  EmbedderPlan& embedder = plan.embedder;
  EmbedderOptions as_embedder;
  as_embedder.pooling = options.pooling;
  as_embedder.dimensions = options.dimensions;
  as_embedder.sparse = options.sparse;
  as_embedder.run = options.run;
  PUMICE_TRY(embedder, EmbedderPlan::of_texts(file, std::move(model), as_embedder));
  const SentenceSettings& settings = embedder.settings;
  if (!embedder.sparse) {
    const EncoderShape shape = embedder.model.shape();
    embedder.model.output = pooled_tensor(settings, shape);
    embedder.normalize = true;
    if (!embedder.dimensions) embedder.dimensions = settings.columns(shape.hidden);
  }
  plan.before_query = options.query_prefix.empty()
                          ? settings.first_prompt({"query", "search_query", "Retrieval-query"})
                          : options.query_prefix;
  embedder.before =
      options.text_prefix.empty()
          ? settings.first_prompt({"document", "passage", "search_document", "Retrieval-document"})
          : options.text_prefix;
  return plan;
}

std::string TextIndexPlan::settings() const {
  if (late) {
    return fmt::format("a vector of {} numbers for each token, {} tokens of a text, before it '{}'",
                       late->columns(), late->text_tokens(), embedder.before);
  }
  if (embedder.sparse) return fmt::format("sparse vectors, before a text '{}'", embedder.before);
  return fmt::format("pooling {}, {} dimensions, before a text '{}'",
                     embedder.model.output.substr(std::string_view("pooled_").size()), embedder.dimensions,
                     embedder.before);
}

Result<std::unique_ptr<IndexEncoder>> IndexEncoder::create(std::shared_ptr<const Model> model,
                                                           TextIndexPlan plan, const Making& making) {
  std::unique_ptr<IndexEncoder> result(new IndexEncoder());
  PUMICE_TRY(result->embedder_, Embedder::create(std::move(model), std::move(plan.embedder), making));
  result->late_ = std::move(plan.late);
  result->before_query_ = std::move(plan.before_query);
  return result;
}

Result<EncoderInput> IndexEncoder::read_passage(const std::string& text, const std::string& name) {
  if (!late_) return embedder_->read(text, name);
  const std::string whole = embedder_->plan().before + text;
  return runner().read([&](size_t limit) { return late_->text(whole, limit); }, name);
}

Result<EncoderInput> IndexEncoder::read_query(const std::string& text, const std::string& name) {
  if (late_) return late_->query(before_query_ + text);
  return runner().read(before_query_ + text, name);
}

std::vector<float> IndexEncoder::passage(const std::string& text, std::vector<float> row) const {
  if (!late_) return embedder_->vector(std::move(row));
  return late_->vectors(embedder_->plan().before + text, embedder_->runner().limit(), row);
}

std::vector<float> IndexEncoder::query(std::vector<float> row) const {
  return late_ ? late_->vectors(row) : embedder_->vector(std::move(row));
}

uint32_t IndexEncoder::columns() const {
  return late_ ? late_->columns() : embedder_->columns();
}

} // namespace pumice
