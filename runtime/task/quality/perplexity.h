#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "step/runner.h"

// How well a model predicts a text, as llama.cpp measures it.
namespace pumice {

// Sums for the mean of log-likelihoods and its standard error.
struct LikelihoodSum {
  uint64_t count = 0;
  double sum = 0, squares = 0; // of the negative log-likelihoods

  void add(float log_likelihood) {
    ++count;
    sum -= log_likelihood;
    squares += double{log_likelihood} * log_likelihood;
  }
  double mean() const { return sum / static_cast<double>(count); }
  double perplexity() const;
  // The standard error of the perplexity, to first order; 0 for fewer than two tokens.
  double error() const;
};

// A text that is cut into windows of as many tokens (llama.cpp calls them chunks).
struct TextWindows {
  std::vector<uint32_t> tokens; // of the text
  uint32_t length = 0;          // of a window
  uint32_t distance = 0;        // from the beginning of one to that of the next
  uint32_t first_scored = 0;    // the first token of a window whose successor is scored
  uint32_t count = 0;
  std::optional<uint32_t> begin; // takes the place of the first token of each window

  // Windows of `context` tokens side by side, whose second halves are scored. With a stride, windows overlap,
  // and each scores the last `stride` tokens: its length is then half a stride more. `most`: of windows; 0:
  // all. Error: a text of less than two windows; `source` names it.
  static Result<TextWindows> cut(std::vector<uint32_t> tokens, uint32_t context, uint32_t stride,
                                 uint32_t most, const std::string& source);
  std::vector<uint32_t> window(uint32_t n) const;
  uint32_t scored() const { return length - 1 - first_scored; } // tokens of a window
};

// The length of a window, as cut() has it.
uint32_t window_length(uint32_t context, uint32_t stride);

// Reads windows with a model.
class WindowReader {
public:
  // `logits`: those of all tokens are wanted, instead of the likelihoods of the text's.
  static Result<std::unique_ptr<WindowReader>> create(std::shared_ptr<const Model> model, SessionSize size,
                                                      bool logits, const AdapterChoice& adapter = {});
  // For each scored token of a window, in order: the token, and the logits before it, or its log-likelihood
  // alone.
  using Take = std::function<void(uint32_t token, std::span<const float> values)>;
  Status read(std::span<const uint32_t> window, uint32_t first_scored, const Take& take);

private:
  WindowReader(std::unique_ptr<Runner> runner, std::string name)
      : runner_(std::move(runner)), name_(std::move(name)) {}

  std::unique_ptr<Runner> runner_;
  std::string name_; // of the tensor that is read
};

} // namespace pumice
