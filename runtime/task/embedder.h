#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "task/input_runner.h"
#include "task/sentence_settings.h"

namespace pumice {

struct EmbedderOptions {
  std::string pooling;           // mean, cls or last; empty: as the model's settings say
  std::optional<bool> normalize; // whether vectors have the length 1; nothing: as the settings say
  uint32_t dimensions = 0;       // the first so many numbers of each vector; 0: all
  std::string prompt;            // the name of what comes before each text; empty: the settings' own
  std::string prefix;            // comes before each text in place of a prompt
  // A weight for each token of the vocabulary, most of them 0, of a masked language model trained for it
  // (SPLADE, Formal et al. 2021): log(1 + the token's largest logit over the text, at least 0). Where the
  // model's settings say that it is one, this is so without `pooling`, too.
  bool sparse = false;
  RunOptions run;
};

// How a model's texts or pictures become vectors: what its files and the options say, before its weights are
// on a device.
struct EmbedderPlan {
  TaskModel model;
  SentenceSettings settings;
  std::string before; // each text
  uint32_t dimensions = 0;
  bool normalize = true;
  bool sparse = false;
  RunOptions run;

  // `loaded`: the tokenizer, if it is there already. Errors: a setting that is not supported, a prompt that
  // there is not, more dimensions than the model has.
  static Result<EmbedderPlan> of_texts(const ModelFile& file, const EmbedderOptions& options,
                                       std::shared_ptr<const Tokenizer> loaded = nullptr);
  // The same of what was read of the model already.
  static Result<EmbedderPlan> of_texts(const ModelFile& file, TaskModel model,
                                       const EmbedderOptions& options);
  // Of pictures in the space of texts (CLIP, SigLIP), or of an encoder of pictures alone. They need no
  // prompt, and have the length 1.
  static Result<EmbedderPlan> of_pictures(const ModelFile& file, const EmbedderOptions& options);

private:
  Status make_sparse(const ModelFile& file);
};

// Turns texts or pictures into vectors.
class Embedder {
public:
  // `model`: loaded with plan.model.load().
  static Result<std::unique_ptr<Embedder>> create(std::shared_ptr<const Model> model, EmbedderPlan plan,
                                                  const Making& making = {});

  Result<EncoderInput> read(const std::string& text, const std::string& name);
  Result<EncoderInput> read(const Image& picture, const std::string& name) const {
    return runner_->read(picture, name);
  }
  // The vector of an input, of the row that the runner gives.
  std::vector<float> vector(std::vector<float> row) const;
  uint32_t columns() const; // of a vector

  const EmbedderPlan& plan() const { return plan_; }
  InputRunner& runner() { return *runner_; }

private:
  explicit Embedder(EmbedderPlan plan) : plan_(std::move(plan)) {}

  const EmbedderPlan plan_;
  std::unique_ptr<InputRunner> runner_;
};

} // namespace pumice
