#include "task/spans/answerer.h"
#include "api/call.h"
#include "api/tasks/creation.h"
#include "api/tasks/spans.h"
#include "api/tasks/task.h"
#include "api/tune.h"

using namespace pumice;
using namespace pumice::api;

struct pumice_answerer : Live<pumice_answerer> {
  std::unique_ptr<Answerer> answerer;
  KeptSpans answers;
};

namespace {

AnswererOptions answerer_options(const pumice_answerer_options& asked) {
  AnswererOptions options;
  if (asked.top) options.top = asked.top;
  options.max_answer_tokens = asked.max_answer_tokens;
  options.run.max_tokens = asked.max_tokens;
  options.run.batch_tokens = asked.batch_tokens;
  return options;
}

} // namespace

Result<Maker> pumice::api::maker_of(const pumice_model& model, const pumice_answerer_options* asked) {
  PUMICE_TRY(const pumice_answerer_options given, read(asked, "options"));
  const AnswererOptions options = answerer_options(given);
  return Maker([=](const Making& making, pumice_created& created) -> Status {
    PUMICE_TRY(AnswererPlan plan, AnswererPlan::of(model.model->file(), options, model.tokenizer));
    auto handle = std::make_unique<pumice_answerer>();
    PUMICE_TRY(handle->answerer, Answerer::create(current_model(model), std::move(plan), making));
    created.answerer = handle.release();
    return {};
  });
}

extern "C" {

pumice_status pumice_answerer_create(pumice_model* model, const pumice_answerer_options* options,
                                     pumice_answerer** answerer, pumice_error* error) {
  return create(model, options, answerer, "answerer", &pumice_created::answerer, error);
}

void pumice_answerer_destroy(pumice_answerer* answerer) {
  destroy_live(answerer);
}

pumice_status pumice_answerer_answer(pumice_answerer* answerer, const char* text,
                                     const char* const* questions, size_t count, const pumice_span** answers,
                                     size_t* answer_count, pumice_error* error) {
  return call(error, [&]() -> Status {
    PUMICE_REQUIRE_LIVE(answerer);
    PUMICE_REQUIRE(text);
    PUMICE_REQUIRE(answers);
    PUMICE_REQUIRE(answer_count);
    Answerer& task = *answerer->answerer;
    answerer->answers.clear();
    const auto read_question = [&](const std::string& question, const std::string& name) {
      return task.read(question, text, name);
    };
    PUMICE_CHECK(run_parts(task.runner(), questions, count, "questions", read_question,
                           [&](size_t question, const std::vector<float>& rows) -> Status {
                             answerer->answers.add(task.answers(questions[question], text, rows));
                             return {};
                           }));
    answerer->answers.give(answers, answer_count);
    return {};
  });
}

void pumice_answerer_cancel(pumice_answerer* answerer) {
  if (is_live(answerer)) answerer->answerer->runner().cancel();
}

} // extern "C"
