#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <vector>

#include "io/mapped_file.h"
#include "io/output_file.h"
#include "task/quality/perplexity.h"

// How far the predictions of a model are from those of another, such as itself before it was quantised: the
// Kullback-Leibler divergence. Those of the other one, the base, are in a file that llama.cpp writes and
// reads, too (--kl-divergence-base): the text's tokens, and for each scored token a row with the
// log-probabilities of all tokens, in 16 bits each.
namespace pumice {

// The log-probability of a token, from the logits of all.
float log_probability(std::span<const float> logits, uint32_t token);

// Writes such a file, for windows without a stride, which must outlive it.
class BaseWriter {
public:
  static Result<std::unique_ptr<BaseWriter>> create(const std::filesystem::path& path,
                                                    const TextWindows& windows, uint32_t vocabulary);
  // The logits before the next scored token. An error comes with finish().
  void add(std::span<const float> logits);
  // Whether all could be written so far, such as to a disk that is full.
  const Status& status() const { return status_; }
  // `done`: the windows that were added as a whole; if they are fewer, the file is about these alone.
  Status finish(uint32_t done);

private:
  BaseWriter(const TextWindows& windows, uint32_t vocabulary) : windows_(windows), vocabulary_(vocabulary) {}

  const TextWindows& windows_;
  uint32_t vocabulary_;
  OutputFile file_;
  Status status_;
  std::vector<uint16_t> row_;
};

// Log-probabilities of all tokens, as a row of the file has them: scale * value + least.
struct BaseRow {
  float scale = 0, least = 0;
  std::span<const uint16_t> values;

  float log_probability(uint32_t token) const { return scale * static_cast<float>(values[token]) + least; }
};

class BaseFile {
public:
  // Errors: another kind of file, one of another vocabulary, or one that is cut off.
  static Result<BaseFile> open(const std::filesystem::path& path, uint32_t vocabulary);

  const TextWindows& windows() const { return windows_; } // but for their first tokens
  BaseRow row(uint32_t window, uint32_t scored) const;

private:
  explicit BaseFile(MappedFile file) : file_(std::move(file)) {}

  MappedFile file_;
  TextWindows windows_;
  uint32_t vocabulary_ = 0;
  size_t first_row_ = 0; // bytes before the rows
};

// A figure with its standard error; 0 where there are too few tokens to tell.
struct Estimate {
  double value = 0, error = 0;
};

// What is known of the tokens so far.
class Divergence {
public:
  void add(std::span<const float> logits, const BaseRow& base, uint32_t token);

  size_t count() const { return divergences_.size(); }
  Estimate perplexity() const;
  Estimate base_perplexity() const;
  double correlation() const; // of the logarithms of both
  Estimate log_ratio() const; // of the perplexities
  Estimate ratio() const;
  Estimate difference() const;
  Estimate mean() const;               // the divergence
  Estimate probability_change() const; // of the text's tokens
  Estimate probability_change_rms() const;
  Estimate same_top() const; // share of the tokens before which both find the same one most probable
  // The value that this share of the tokens is below, from 0 to 1.
  double divergence_at(double share) const;
  double probability_change_at(double share) const;

private:
  struct Sum {
    double sum = 0, squares = 0;
    void add(double value) {
      sum += value;
      squares += value * value;
    }
    Estimate mean(size_t count) const;
  };
  double covariance() const;

  Sum own_, base_, divergence_, change_, change_squares_;
  double products_ = 0; // of both log-likelihoods
  size_t same_ = 0;
  std::vector<float> divergences_, changes_;
};

} // namespace pumice
