#include "task/reranker.h"
#include "api/call.h"
#include "api/tasks/creation.h"
#include "api/tasks/task.h"
#include "api/tune.h"

using namespace pumice;
using namespace pumice::api;

struct pumice_reranker : Live<pumice_reranker> {
  std::unique_ptr<Reranker> reranker;
};

Result<Maker> pumice::api::maker_of(const pumice_model& model, const pumice_reranker_options* asked) {
  PUMICE_TRY(const pumice_reranker_options options, read(asked, "options"));
  PUMICE_CHECK(check_purpose(model, PUMICE_FOR_SCORES));
  RerankerOptions reranker_options;
  reranker_options.instruction = text_or_empty(options.instruction);
  reranker_options.raw = options.raw;
  reranker_options.run = {options.max_tokens, options.batch_tokens};
  return Maker([=](const Making& making, pumice_created& created) -> Status {
    PUMICE_TRY(RerankerPlan plan, RerankerPlan::of(model.model->file(), reranker_options, model.tokenizer));
    auto handle = std::make_unique<pumice_reranker>();
    PUMICE_TRY(handle->reranker, Reranker::create(current_model(model), std::move(plan), making));
    created.reranker = handle.release();
    return {};
  });
}

extern "C" {

pumice_status pumice_reranker_create(pumice_model* model, const pumice_reranker_options* options,
                                     pumice_reranker** reranker, pumice_error* error) {
  return create(model, options, reranker, "reranker", &pumice_created::reranker, error);
}

void pumice_reranker_destroy(pumice_reranker* reranker) {
  destroy_live(reranker);
}

pumice_status pumice_reranker_score(pumice_reranker* reranker, const char* query, const char* const* texts,
                                    size_t count, float* scores, size_t* cut, pumice_error* error) {
  return call(error, [&]() -> Status {
    PUMICE_REQUIRE_LIVE(reranker);
    PUMICE_REQUIRE(query);
    PUMICE_CHECK(check_array(scores, count, sizeof *scores, "scores"));
    Reranker& task = *reranker->reranker;
    const auto read_text = [&](const std::string& text, const std::string& name) {
      return task.read(query, text, name);
    };
    const auto take = [&](size_t index, const std::vector<float>& row) -> Status {
      scores[index] = task.score(texts[index], row);
      return {};
    };
    return run_texts(task.runner(), texts, count, cut, read_text, take);
  });
}

void pumice_reranker_cancel(pumice_reranker* reranker) {
  if (is_live(reranker)) reranker->reranker->runner().cancel();
}

} // extern "C"
