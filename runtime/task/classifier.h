#pragma once

#include <memory>
#include <string>
#include <vector>

#include "task/input_runner.h"

namespace pumice {

// How a model's logits become scores.
enum class Scoring {
  softmax, // one label applies: the probabilities sum to 1
  sigmoid, // each label applies or not: each has its own probability
  raw,     // regression: the logits are the results
};

struct ClassifierOptions {
  // For a model of texts and pictures in one space (CLIP, SigLIP), which has no labels of its own. Others
  // have theirs, and take none.
  std::vector<std::string> labels;
  std::string sentence = "This is a photo of {}."; // that stands for a label, with {} in its place
  RunOptions run;
};

// Which labels a model has and how it reads texts or pictures, before its weights are on a device.
struct ClassifierPlan {
  TaskModel model; // of the texts or pictures that are classified
  std::vector<std::string> labels;
  std::optional<size_t> named; // how many the settings name, where the head has another number
  Scoring scoring = Scoring::softmax;
  RunOptions run;
  // Of labels in a space: the model that makes vectors of them, the sentences that stand for them, and the
  // space.
  std::optional<TaskModel> texts;
  std::vector<std::string> sentences;
  SharedSpace space;

  // `loaded`: the tokenizer, if it is there already. Errors: a model without a head, labels for a model that
  // has its own, no labels for one that has none.
  static Result<ClassifierPlan> of(const ModelFile& file, const ClassifierOptions& options,
                                   std::shared_ptr<const Tokenizer> loaded = nullptr);
  // The vectors of the sentences, one after the other, by the model that texts->load() loads.
  Result<std::vector<float>> embed_labels(std::shared_ptr<const Model> texts) const;
};

// Finds how probable each label is for texts or pictures.
class Classifier {
public:
  // `model`: loaded with plan.model.load(). `label_vectors`: of embed_labels(), for labels in a space.
  static Result<std::unique_ptr<Classifier>> create(std::shared_ptr<const Model> model, ClassifierPlan plan,
                                                    std::vector<float> label_vectors = {},
                                                    const Making& making = {});

  const std::vector<std::string>& labels() const { return plan_.labels; }
  Scoring scoring() const { return plan_.scoring; }
  // The score of each label, of the row that the runner gives for an input.
  std::vector<float> scores(std::vector<float> row) const;
  InputRunner& runner() { return *runner_; }

private:
  Classifier(ClassifierPlan plan, std::vector<float> label_vectors)
      : plan_(std::move(plan)), label_vectors_(std::move(label_vectors)) {}

  const ClassifierPlan plan_;
  const std::vector<float> label_vectors_; // empty: a head gives the logits
  std::unique_ptr<InputRunner> runner_;
};

} // namespace pumice
