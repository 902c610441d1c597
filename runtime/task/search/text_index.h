#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "task/search/index_encoder.h"
#include "task/search/index_files.h"
#include "task/search/index_vectors.h"

namespace pumice {

// The passages of a folder's texts with their vectors, in a folder of their own, and the best of them for a
// query. Used by one thread at a time, except cancel().
class TextIndex {
public:
  // `model`: loaded with plan.embedder.model.load(). `folder`: of the texts; `index`: where the vectors are
  // kept.
  static Result<std::unique_ptr<TextIndex>> create(std::shared_ptr<const Model> model, TextIndexPlan plan,
                                                   std::filesystem::path folder, std::filesystem::path index,
                                                   const Making& making = {});

  // Told before vectors are made: of how many passages in all, and how many of them are new.
  using OnPassages = std::function<void(size_t all, size_t added)>;
  // Brings the index up to date with the folder: vectors of unchanged files are kept. `rebuild`: makes it
  // again. Errors: an index that another model or other options made; a folder without text.
  Status update(bool rebuild, const OnPassages& on_passages = {}, const Progress& progress = {});
  // Of the last update, why files or passages were left out that could not be read. It tries files again.
  std::span<const Error> left_out() const { return left_out_; }

  Result<EncoderInput> read(const std::string& query, const std::string& name);
  struct Found {
    float score = 0; // the cosine; of sparse vectors the product; of late interaction as a reranker's
    const Passage* passage = nullptr;
    const std::string* file = nullptr;
  };
  // The best passages for a query, of the row that the runner gives: best first, and of equal scores the
  // earlier one first. Of sparse vectors, only those that share a token with the query. They stay valid until
  // update(), before which there are none.
  Result<std::vector<Found>> find(std::vector<float> row, size_t most);
  InputRunner& runner() { return encoder_->runner(); }

private:
  TextIndex(std::string settings, std::filesystem::path folder, std::filesystem::path index)
      : settings_(std::move(settings)), folder_(std::move(folder)), index_(std::move(index)) {}
  Status open();
  Result<std::vector<float>> scores(const std::vector<float>& query);
  // Adds the largest product of each passage's vectors with each vector of a query.
  Status add_best(std::span<const EncoderInput> query, std::vector<float>& scores);

  const std::string settings_;
  const std::filesystem::path folder_, index_;
  std::unique_ptr<IndexEncoder> encoder_;
  IndexHead head_;
  std::vector<Passage> passages_;
  std::vector<Error> left_out_;
  std::unique_ptr<Encoder> scores_;     // the products of a query's vectors with every vector
  std::optional<SparseVectors> sparse_; // in place of that
};

} // namespace pumice
