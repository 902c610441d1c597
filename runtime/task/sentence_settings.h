#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/architecture.h"

namespace pumice {

// A layer after the pooling: activation(weight * x + bias).
struct DenseLayer {
  uint32_t inputs = 0, outputs = 0;
  std::vector<float> weight; // [outputs, inputs]
  std::vector<float> bias;   // [outputs], or empty
  bool tanh = false;
};

// How a model turns the vectors of a text's tokens into one vector, and what it expects before a text: from
// the files of sentence-transformers beside its weights, or from GGUF's keys.
struct SentenceSettings {
  std::string pooling; // mean, cls or last; empty: the files do not say
  bool normalized = true;
  std::vector<DenseLayer> dense;
  bool of_tokens = false;  // nothing pools: each token keeps a vector of its own (late interaction)
  bool sparse = false;     // a text's vector has a weight for each token of the vocabulary (SPLADE)
  uint32_t max_tokens = 0; // of a text; 0: as many as the model reads
  std::map<std::string, std::string> prompts; // by name, such as "query"
  std::string default_prompt;                 // a name; empty: none

  // The prompt of this name, or of an empty name the default one. An error lists the names that there are.
  Result<std::string> prompt(const std::string& model, const std::string& name) const;
  // The first of these names that there is a prompt of, otherwise the default prompt.
  std::string first_prompt(const std::vector<std::string_view>& names) const;
  // The columns of a vector of a model with this many.
  uint32_t columns(uint32_t hidden) const { return dense.empty() ? hidden : dense.back().outputs; }
};

// `pooling`: what the user chose, or empty; then a folder's way to combine tokens need not be one of the
// three. Errors name the file and the field.
Result<SentenceSettings> read_sentence_settings(const ModelFile& file, const std::string& pooling);

// The encoder's tensor that has a text's pooled vector. Without a setting, it is the mean of the tokens, or
// of a decoder the last one.
std::string pooled_tensor(const SentenceSettings& settings, const EncoderShape& shape);

// The vector of a text, of the pooled one: dense layers, the first `dimensions` columns (0: all), and length
// 1 if `normalized`.
std::vector<float> finish_vector(const SentenceSettings& settings, std::vector<float> pooled,
                                 uint32_t dimensions, bool normalized);

} // namespace pumice
