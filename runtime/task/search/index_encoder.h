#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "task/embedder.h"
#include "task/late/late_interaction.h"

namespace pumice {

struct TextIndexOptions {
  // Of a model of late interaction, passages have a vector for each token unless `pooling` is given.
  std::string pooling;                   // as of an embedder
  uint32_t dimensions = 0;               // the same
  bool sparse = false;                   // the same: then neither of those two counts
  std::string query_prefix, text_prefix; // before each; empty: the model's prompts for them
  RunOptions run;
};

// How queries and passages become vectors.
struct TextIndexPlan {
  EmbedderPlan embedder; // of passages
  std::optional<LateInteraction> late;
  std::string before_query;

  // `loaded`: the tokenizer, if it is there already.
  static Result<TextIndexPlan> of(const ModelFile& file, const TextIndexOptions& options,
                                  std::shared_ptr<const Tokenizer> loaded = nullptr);
  std::string settings() const; // all that changes a passage's vectors, as the index keeps it
};

// Turns passages and queries into vectors: one each, or of late interaction one for each token.
class IndexEncoder {
public:
  static Result<std::unique_ptr<IndexEncoder>> create(std::shared_ptr<const Model> model, TextIndexPlan plan,
                                                      const Making& making = {});

  Result<EncoderInput> read_passage(const std::string& text, const std::string& name);
  Result<EncoderInput> read_query(const std::string& text, const std::string& name);
  // The vectors, one after the other, of the row that the runner gives.
  std::vector<float> passage(const std::string& text, std::vector<float> row) const;
  std::vector<float> query(std::vector<float> row) const;

  uint32_t columns() const; // of a vector
  bool sparse() const { return embedder_->plan().sparse; }
  bool late() const { return late_.has_value(); }
  InputRunner& runner() { return embedder_->runner(); }

private:
  IndexEncoder() = default;

  std::unique_ptr<Embedder> embedder_;
  std::optional<LateInteraction> late_;
  std::string before_query_;
};

} // namespace pumice
