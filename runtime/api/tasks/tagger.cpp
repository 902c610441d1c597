#include "task/spans/tagger.h"
#include "api/call.h"
#include "api/tasks/creation.h"
#include "api/tasks/spans.h"
#include "api/tasks/task.h"
#include "api/tune.h"

using namespace pumice;
using namespace pumice::api;

struct pumice_tagger : Live<pumice_tagger> {
  std::unique_ptr<Tagger> tagger;
  KeptSpans spans;
};

Result<Maker> pumice::api::maker_of(const pumice_model& model, const pumice_tagger_options* asked) {
  PUMICE_TRY(const pumice_tagger_options options, read(asked, "options"));
  RunOptions run;
  run.max_tokens = options.max_tokens;
  run.batch_tokens = options.batch_tokens;
  return Maker([=](const Making& making, pumice_created& created) -> Status {
    PUMICE_TRY(TaggerPlan plan, TaggerPlan::of(model.model->file(), run, model.tokenizer));
    auto handle = std::make_unique<pumice_tagger>();
    PUMICE_TRY(handle->tagger, Tagger::create(current_model(model), std::move(plan), making));
    created.tagger = handle.release();
    return {};
  });
}

extern "C" {

pumice_status pumice_tagger_create(pumice_model* model, const pumice_tagger_options* options,
                                   pumice_tagger** tagger, pumice_error* error) {
  return create(model, options, tagger, "tagger", &pumice_created::tagger, error);
}

void pumice_tagger_destroy(pumice_tagger* tagger) {
  destroy_live(tagger);
}

pumice_status pumice_tagger_tag(pumice_tagger* tagger, const char* const* texts, size_t count,
                                const pumice_span** spans, size_t* span_count, pumice_error* error) {
  return call(error, [&]() -> Status {
    PUMICE_REQUIRE_LIVE(tagger);
    PUMICE_REQUIRE(spans);
    PUMICE_REQUIRE(span_count);
    Tagger& task = *tagger->tagger;
    tagger->spans.clear();
    const auto read_text = [&](const std::string& text, const std::string& name) {
      return task.read(text, name);
    };
    PUMICE_CHECK(run_parts(task.runner(), texts, count, "texts", read_text,
                           [&](size_t text, const std::vector<float>& rows) -> Status {
                             tagger->spans.add(task.spans(texts[text], rows));
                             return {};
                           }));
    tagger->spans.give(spans, span_count);
    return {};
  });
}

void pumice_tagger_cancel(pumice_tagger* tagger) {
  if (is_live(tagger)) tagger->tagger->runner().cancel();
}

} // extern "C"
