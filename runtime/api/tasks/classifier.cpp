#include <fmt/format.h>

#include "api/call.h"
#include "api/tasks/creation.h"
#include "api/tasks/task.h"
#include "api/tune.h"
#include "task/classifier.h"

using namespace pumice;
using namespace pumice::api;

struct pumice_classifier : Live<pumice_classifier> {
  std::unique_ptr<Classifier> classifier;
};

namespace {

Result<ClassifierOptions> classifier_options(const pumice_classifier_options& options) {
  ClassifierOptions result;
  PUMICE_CHECK(check_array(options.labels, options.label_count, sizeof *options.labels, "options.labels"));
  for (size_t i = 0; i < options.label_count; ++i) {
    if (!options.labels[i]) return null_argument(fmt::format("options.labels[{}]", i).c_str());
    result.labels.emplace_back(options.labels[i]);
  }
  if (options.sentence) result.sentence = options.sentence;
  result.run.batch_tokens = options.batch_tokens;
  return result;
}

Result<std::unique_ptr<Classifier>> make_classifier(const pumice_model& model,
                                                    const ClassifierOptions& options, const Making& making) {
  PUMICE_TRY(ClassifierPlan plan, ClassifierPlan::of(model.model->file(), options, model.tokenizer));
  std::shared_ptr<const Model> reader = current_model(model);
  std::vector<float> label_vectors;
  if (plan.texts) {
    if (!model.tower) {
      return Error{Code::unsupported,
                   fmt::format("{}: labels are for pictures: load the model with pumice_load_options.vision",
                               model.model->file().path())};
    }
    PUMICE_TRY(label_vectors, plan.embed_labels(reader));
    reader = current_model(model.tower);
  }
  return Classifier::create(std::move(reader), std::move(plan), std::move(label_vectors), making);
}

InputRunner::Take write_scores(const Classifier& classifier, float* to) {
  return write_rows(to, [&](std::vector<float> row) { return classifier.scores(std::move(row)); });
}

} // namespace

Result<Maker> pumice::api::maker_of(const pumice_model& model, const pumice_classifier_options* asked) {
  PUMICE_TRY(const pumice_classifier_options options, read(asked, "options"));
  PUMICE_TRY(const ClassifierOptions classifier_options, classifier_options(options));
  return Maker([=](const Making& making, pumice_created& created) -> Status {
    auto handle = std::make_unique<pumice_classifier>();
    PUMICE_TRY(handle->classifier, make_classifier(model, classifier_options, making));
    created.classifier = handle.release();
    return {};
  });
}

extern "C" {

pumice_status pumice_classifier_create(pumice_model* model, const pumice_classifier_options* options,
                                       pumice_classifier** classifier, pumice_error* error) {
  return create(model, options, classifier, "classifier", &pumice_created::classifier, error);
}

void pumice_classifier_destroy(pumice_classifier* classifier) {
  destroy_live(classifier);
}

size_t pumice_classifier_label_count(const pumice_classifier* classifier) {
  return is_live(classifier) ? classifier->classifier->labels().size() : 0;
}

const char* pumice_classifier_label(const pumice_classifier* classifier, size_t index) {
  if (index >= pumice_classifier_label_count(classifier)) return nullptr;
  return classifier->classifier->labels()[index].c_str();
}

pumice_status pumice_classifier_classify(pumice_classifier* classifier, const char* const* texts,
                                         size_t count, float* probabilities, size_t* cut,
                                         pumice_error* error) {
  return call(error, [&]() -> Status {
    PUMICE_REQUIRE_LIVE(classifier);
    PUMICE_CHECK(check_array(probabilities, count, sizeof *probabilities, "probabilities"));
    Classifier& task = *classifier->classifier;
    InputRunner& runner = task.runner();
    if (runner.source().reads_pictures()) {
      return Error{Code::unsupported,
                   "the classifier reads pictures: call pumice_classifier_classify_pictures"};
    }
    const auto read_text = [&](const std::string& text, const std::string& name) {
      return runner.read(text, name);
    };
    return run_texts(runner, texts, count, cut, read_text, write_scores(task, probabilities));
  });
}

pumice_status pumice_classifier_classify_pictures(pumice_classifier* classifier,
                                                  const pumice_picture* pictures, size_t count,
                                                  float* probabilities, pumice_error* error) {
  return call(error, [&]() -> Status {
    PUMICE_REQUIRE_LIVE(classifier);
    PUMICE_CHECK(check_array(probabilities, count, sizeof *probabilities, "probabilities"));
    Classifier& task = *classifier->classifier;
    if (!task.runner().source().reads_pictures()) {
      return Error{Code::unsupported, "the classifier reads texts: call pumice_classifier_classify"};
    }
    return run_pictures(task.runner(), pictures, count, write_scores(task, probabilities));
  });
}

void pumice_classifier_cancel(pumice_classifier* classifier) {
  if (is_live(classifier)) classifier->classifier->runner().cancel();
}

} // extern "C"
