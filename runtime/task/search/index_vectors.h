#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

#include "base/result.h"
#include "io/formats/vector_file.h"
#include "io/output_file.h"
#include "task/search/index_files.h"

namespace pumice {

// The file with an index's vectors.
inline constexpr const char* index_vectors_file = "model.safetensors";

// Sparse vectors: of each the numbers that are not 0. In a file: "begins" (where each vector begins, and
// where the last one ends), "tokens" and "weights", one after the other.
class SparseVectors {
public:
  size_t count() const { return begins_.size() - 1; }
  void add(std::span<const float> values); // all of them
  void add(const SparseVectors& from, size_t index);
  // The product with a vector, all of whose numbers are given.
  float product(size_t index, std::span<const float> values) const;

  // All but the file's finish().
  Status write(OutputFile& file, const std::filesystem::path& path) const;
  // Errors: a file of something else, tokens that are not below `columns`.
  static Result<SparseVectors> read(const std::filesystem::path& path, uint32_t columns);

private:
  std::vector<int64_t> begins_ = {0};
  std::vector<uint32_t> tokens_;
  std::vector<float> weights_;
};

// Writes the vectors of an index, in the order of its passages: those that the older index has, and new ones.
class IndexVectors {
public:
  IndexVectors(const std::filesystem::path& index, bool sparse, uint32_t columns)
      : path_(index / index_vectors_file), sparse_(sparse), columns_(columns) {}

  // Reads the older ones.
  Status read(uint64_t count);
  Status open();
  Status keep(uint64_t first, uint32_t count);
  // One or several, one after the other.
  Status add(std::span<const float> values);
  // Writes what is left, as far as that can fail; finish() then puts the file in the place of the older one.
  Status flush();
  Status finish();

  // That the files of the index have different numbers of passages.
  Error not_together() const;

private:
  const std::filesystem::path path_;
  const bool sparse_;
  const uint32_t columns_;
  std::vector<float> old_;
  SparseVectors old_sparse_, new_sparse_;
  VectorFile file_;
  OutputFile sparse_file_;
};

} // namespace pumice
