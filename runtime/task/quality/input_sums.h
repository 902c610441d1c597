#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "step/runner.h"

namespace pumice {

// Sums of the squares of what a decoder's matrices are multiplied by, over some texts. They tell how much
// each column of a matrix matters when it is quantised: llama.cpp calls them an importance matrix.
class InputSums {
public:
  // The matrices are known by their names in GGUF. `size`: of one sequence. Error: unsupported for a decoder
  // without a GGUF form.
  static Result<std::unique_ptr<InputSums>> create(std::shared_ptr<const Model> model, SessionSize size);

  // Adds those of a text, which fits the context.
  Status read(std::span<const uint32_t> tokens);
  // Writes a file of llama.cpp's llama-imatrix, in its GGUF form. `source`: names the texts.
  Status write(const std::filesystem::path& path, const std::string& source) const;

  size_t matrices() const { return inputs_.size(); }
  uint64_t tokens() const { return tokens_; }
  // Of a matrix, one for each of its columns; empty: it is not among them.
  std::span<const double> of(const std::string& matrix) const;

private:
  explicit InputSums(std::unique_ptr<Runner> runner) : runner_(std::move(runner)) {}
  Status add(uint32_t rows);

  std::unique_ptr<Runner> runner_;
  std::map<std::string, std::string> inputs_;       // of each matrix: the readable tensor
  std::map<std::string, std::vector<double>> sums_; // of each readable tensor
  uint64_t tokens_ = 0;
  uint32_t texts_ = 0, longest_ = 0;
};

} // namespace pumice
