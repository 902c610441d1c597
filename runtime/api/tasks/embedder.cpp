#include <fmt/format.h>

#include "api/call.h"
#include "api/tasks/creation.h"
#include "api/tasks/task.h"
#include "api/tune.h"
#include "api/work.h"
#include "task/embedder.h"

using namespace pumice;
using namespace pumice::api;

// Of texts, of pictures, or of both in one space.
struct pumice_embedder : pumice_work, Live<pumice_embedder> {
  pumice_embedder() : pumice_work("embedder") {}

  Result<SliceResult> slice(const SliceRequest& request) override { return one().runner().slice(request); }
  Status discard() override { return one().runner().discard(); }
  void cancel() override {
    if (texts) texts->runner().cancel();
    if (pictures) pictures->runner().cancel();
  }

  std::unique_ptr<Embedder> texts, pictures;
  std::vector<float> vectors; // of texts that are read in slices

  Embedder& one() const { return texts ? *texts : *pictures; }
};

namespace {

Result<EmbedderOptions> embedder_options(const pumice_embedder_options& options) {
  EmbedderOptions result;
  PUMICE_TRY(result.pooling, read_pooling(options.pooling));
  if (options.normalize < -1 || options.normalize > 1) {
    return Error{Code::invalid_argument,
                 fmt::format("options.normalize is {}: expected -1, 0 or 1", options.normalize)};
  }
  if (options.normalize) result.normalize = options.normalize > 0;
  result.dimensions = options.dimensions;
  result.prompt = text_or_empty(options.prompt);
  result.prefix = text_or_empty(options.prefix);
  if (options.prompt && options.prefix) {
    return Error{Code::invalid_argument, "options has prompt and prefix: set one of them"};
  }
  if (options.sparse > 1)
    return Error{Code::invalid_argument,
                 fmt::format("options.sparse is {}: expected 0 or 1", options.sparse)};
  result.sparse = options.sparse;
  result.run = {options.max_tokens, options.batch_tokens};
  return result;
}

bool reads_pictures(const Model& model) {
  const ModelShape& shape = model.shape();
  return model.options().tower == Tower::pictures ||
         (shape.encoder && !shape.has_decoder() && shape.encoder->kind != InputKind::tokens);
}

Status make_embedders(const pumice_model& model, const EmbedderOptions& options, const Making& making,
                      pumice_embedder& handle) {
  std::shared_ptr<const Model> pictures = model.model->shape().shared_space ? model.tower : nullptr;
  if (reads_pictures(*model.model)) {
    pictures = model.model;
  } else {
    PUMICE_CHECK(check_purpose(model, PUMICE_FOR_VECTORS));
    PUMICE_TRY(EmbedderPlan plan, EmbedderPlan::of_texts(model.model->file(), options, model.tokenizer));
    if (plan.sparse) PUMICE_CHECK(check_head(model));
    PUMICE_TRY(handle.texts, Embedder::create(current_model(model), std::move(plan), making));
  }
  if (!pictures) return {};
  PUMICE_TRY(EmbedderPlan plan, EmbedderPlan::of_pictures(pictures->file(), options));
  PUMICE_TRY(handle.pictures, Embedder::create(current_model(pictures), std::move(plan), making));
  return {};
}

Error reads_only(const char* what) {
  return {Code::unsupported, std::string("the embedder reads ") + what};
}

Error reads_only_pictures() {
  return reads_only("pictures: call pumice_embedder_embed_pictures");
}

} // namespace

Result<Maker> pumice::api::maker_of(const pumice_model& model, const pumice_embedder_options* asked) {
  PUMICE_TRY(const pumice_embedder_options options, read(asked, "options"));
  PUMICE_TRY(const EmbedderOptions embedder_options, embedder_options(options));
  return Maker([=](const Making& making, pumice_created& created) -> Status {
    auto handle = std::make_unique<pumice_embedder>();
    PUMICE_CHECK(make_embedders(model, embedder_options, making, *handle));
    created.embedder = handle.release();
    return {};
  });
}

extern "C" {

pumice_status pumice_embedder_create(pumice_model* model, const pumice_embedder_options* options,
                                     pumice_embedder** embedder, pumice_error* error) {
  return create(model, options, embedder, "embedder", &pumice_created::embedder, error);
}

void pumice_embedder_destroy(pumice_embedder* embedder) {
  destroy_live(embedder);
}

uint32_t pumice_embedder_columns(const pumice_embedder* embedder) {
  return is_live(embedder) ? embedder->one().columns() : 0;
}

pumice_status pumice_embedder_embed(pumice_embedder* embedder, const char* const* texts, size_t count,
                                    float* values, size_t* cut, pumice_error* error) {
  return call(error, [&]() -> Status {
    PUMICE_REQUIRE_LIVE(embedder);
    PUMICE_CHECK(check_array(values, count, sizeof *values, "values"));
    if (!embedder->texts) return reads_only_pictures();
    Embedder& of_texts = *embedder->texts;
    const auto read_text = [&](const std::string& text, const std::string& name) {
      return of_texts.read(text, name);
    };
    const auto take =
        write_rows(values, [&](std::vector<float> row) { return of_texts.vector(std::move(row)); });
    return run_texts(of_texts.runner(), texts, count, cut, read_text, take);
  });
}

pumice_status pumice_embedder_embed_pictures(pumice_embedder* embedder, const pumice_picture* pictures,
                                             size_t count, float* values, pumice_error* error) {
  return call(error, [&]() -> Status {
    PUMICE_REQUIRE_LIVE(embedder);
    PUMICE_CHECK(check_array(values, count, sizeof *values, "values"));
    if (!embedder->pictures) {
      return reads_only("texts: for pictures, load a model that has them in one space with "
                        "pumice_load_options.vision");
    }
    Embedder& of_pictures = *embedder->pictures;
    const auto take =
        write_rows(values, [&](std::vector<float> row) { return of_pictures.vector(std::move(row)); });
    return run_pictures(of_pictures.runner(), pictures, count, take);
  });
}

pumice_status pumice_embedder_begin(pumice_embedder* embedder, const char* const* texts, size_t count,
                                    size_t* cut, pumice_error* error) {
  return call(error, [&]() -> Status {
    PUMICE_REQUIRE_LIVE(embedder);
    if (!embedder->texts) return reads_only_pictures();
    Embedder& of_texts = *embedder->texts;
    const auto read_text = [&](const std::string& text, const std::string& name) {
      return of_texts.read(text, name);
    };
    PUMICE_TRY(std::vector<EncoderInput> inputs, read_texts(of_texts.runner(), texts, count, cut, read_text));
    std::vector<float> vectors(count * of_texts.columns());
    const auto take = write_rows(
        vectors.data(), [&of_texts](std::vector<float> row) { return of_texts.vector(std::move(row)); });
    PUMICE_CHECK(of_texts.runner().begin(std::move(inputs), take));
    embedder->vectors = std::move(vectors); // where they were
    return {};
  });
}

pumice_work* pumice_embedder_work(pumice_embedder* embedder) {
  return is_live(embedder) ? embedder : nullptr;
}

pumice_status pumice_embedder_read(pumice_embedder* embedder, float* values, size_t capacity, size_t* count,
                                   pumice_error* error) {
  return call(error, [&]() -> Status {
    PUMICE_REQUIRE_LIVE(embedder);
    PUMICE_CHECK(check_array(values, capacity, sizeof *values, "values"));
    if (!embedder->one().runner().done())
      return Error{Code::not_ready, "there is nothing to read yet: run the texts to their end first"};
    hand_out(embedder->vectors.data(), embedder->vectors.size(), values, capacity, count);
    return {};
  });
}

void pumice_embedder_cancel(pumice_embedder* embedder) {
  if (is_live(embedder)) embedder->cancel();
}

} // extern "C"
