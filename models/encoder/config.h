#pragma once

#include <string>
#include <vector>

#include "model/architecture.h"
#include "models/stack/config.h"

namespace pumice {

// What an encoder has beside any stack of layers.
struct EncoderConfig : StackConfig {
  InputKind kind = InputKind::tokens;
  uint32_t token_types = 1;
  bool any_length = false;
  std::vector<uint32_t> input_shape; // of a picture or a sound
  std::vector<std::string> labels;   // of a classification; empty: there is none
  std::vector<LayerCache> memory;    // of each decoder layer's cross-attention, where there is a decoder

  // The cache that all of its own layers use in turn comes after the decoder's and those of its
  // cross-attention.
  uint32_t own_cache() const { return 2 * static_cast<uint32_t>(memory.size()); }
  EncoderShape shape() const;
};

// The names of a classification's labels, in order: id2label, or as many as num_labels says.
Result<std::vector<std::string>> read_labels(const Settings& settings);

std::vector<Hyperparameter> hyperparameters(const EncoderConfig& config);

} // namespace pumice
