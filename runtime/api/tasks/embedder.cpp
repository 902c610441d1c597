#include <fmt/format.h>

#include "api/call.h"
#include "api/tasks/task.h"
#include "api/tune.h"
#include "task/embedder.h"

using namespace pumice;
using namespace pumice::api;

// Of texts, of pictures, or of both in one space.
struct pumice_embedder {
  std::unique_ptr<Embedder> texts, pictures;

  const Embedder& one() const { return texts ? *texts : *pictures; }
};

namespace {

Result<EmbedderOptions> embedder_options(const pumice_embedder_options& given) {
  EmbedderOptions options;
  PUMICE_TRY(options.pooling, read_pooling(given.pooling));
  if (given.normalize < -1 || given.normalize > 1) {
    return Error{Code::invalid_argument,
                 fmt::format("options.normalize is {}: expected -1, 0 or 1", given.normalize)};
  }
  if (given.normalize) options.normalize = given.normalize > 0;
  options.dimensions = given.dimensions;
  options.prompt = text_or_empty(given.prompt);
  options.prefix = text_or_empty(given.prefix);
  if (given.prompt && given.prefix) {
    return Error{Code::invalid_argument, "options has prompt and prefix: set one of them"};
  }
  options.run = {given.max_tokens, given.batch_tokens};
  return options;
}

bool reads_pictures(const Model& model) {
  const ModelShape& shape = model.shape();
  return model.options().tower == Tower::pictures ||
         (shape.encoder && !shape.has_decoder() && shape.encoder->kind != InputKind::tokens);
}

Status make_embedders(const pumice_model& model, const EmbedderOptions& options, pumice_embedder& handle) {
  std::shared_ptr<const Model> pictures = model.model->shape().shared_space ? model.tower : nullptr;
  if (reads_pictures(*model.model)) {
    pictures = model.model;
  } else {
    PUMICE_CHECK(check_purpose(model, PUMICE_FOR_VECTORS));
    PUMICE_TRY(EmbedderPlan plan, EmbedderPlan::of_texts(model.model->file(), options, model.tokenizer));
    PUMICE_TRY(handle.texts, Embedder::create(current_model(model), std::move(plan)));
  }
  if (!pictures) return {};
  PUMICE_TRY(EmbedderPlan plan, EmbedderPlan::of_pictures(pictures->file(), options));
  PUMICE_TRY(handle.pictures, Embedder::create(current_model(pictures), std::move(plan)));
  return {};
}

Error reads_only(const char* what) {
  return {Code::unsupported, std::string("the embedder reads ") + what};
}

} // namespace

extern "C" {

pumice_status pumice_embedder_create(pumice_model* model, const pumice_embedder_options* options,
                                     pumice_embedder** embedder, pumice_error* error) {
  return call(error, [&]() -> Status {
    PUMICE_REQUIRE(model);
    PUMICE_REQUIRE(embedder);
    *embedder = nullptr;
    PUMICE_TRY(const pumice_embedder_options given, read(options, "options"));
    PUMICE_TRY(const EmbedderOptions own, embedder_options(given));
    auto handle = std::make_unique<pumice_embedder>();
    PUMICE_CHECK(make_embedders(*model, own, *handle));
    *embedder = handle.release();
    return {};
  });
}

void pumice_embedder_destroy(pumice_embedder* embedder) {
  delete embedder;
}

uint32_t pumice_embedder_columns(const pumice_embedder* embedder) {
  return embedder ? embedder->one().columns() : 0;
}

pumice_status pumice_embedder_embed(pumice_embedder* embedder, const char* const* texts, size_t count,
                                    float* values, size_t* cut, pumice_error* error) {
  return call(error, [&]() -> Status {
    PUMICE_REQUIRE(embedder);
    PUMICE_CHECK(check_array(values, count, sizeof *values, "values"));
    if (!embedder->texts) return reads_only("pictures: call pumice_embedder_embed_pictures");
    Embedder& own = *embedder->texts;
    const auto read_text = [&](const std::string& text, const std::string& name) {
      return own.read(text, name);
    };
    const auto take = write_rows(values, [&](std::vector<float> row) { return own.vector(std::move(row)); });
    return run_texts(own.runner(), texts, count, cut, read_text, take);
  });
}

pumice_status pumice_embedder_embed_pictures(pumice_embedder* embedder, const pumice_picture* pictures,
                                             size_t count, float* values, pumice_error* error) {
  return call(error, [&]() -> Status {
    PUMICE_REQUIRE(embedder);
    PUMICE_CHECK(check_array(values, count, sizeof *values, "values"));
    if (!embedder->pictures) {
      return reads_only("texts: for pictures, load a model that has them in one space with "
                        "pumice_load_options.vision");
    }
    Embedder& own = *embedder->pictures;
    const auto take = write_rows(values, [&](std::vector<float> row) { return own.vector(std::move(row)); });
    return run_pictures(own.runner(), pictures, count, take);
  });
}

void pumice_embedder_cancel(pumice_embedder* embedder) {
  if (!embedder) return;
  if (embedder->texts) embedder->texts->runner().cancel();
  if (embedder->pictures) embedder->pictures->runner().cancel();
}

} // extern "C"
