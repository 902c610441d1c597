#pragma once

#include <string>
#include <vector>

#include "model/architecture.h"
#include "models/stack/config.h"

namespace pumice {

// The settings of an encoder besides those of its stack of layers.
struct EncoderConfig : StackConfig {
  InputKind kind = InputKind::tokens;
  uint32_t token_types = 1;
  bool any_length = false;
  std::vector<uint32_t> input_shape;          // for a picture or a sound
  std::vector<FrameConvolution> convolutions; // over samples
  std::optional<uint32_t> padding;            // see EncoderShape
  bool causal = false;                        // a position attends to those before it
  std::vector<std::string> labels;            // of the classifier; empty: there is none
  std::vector<LayerCache> memory; // of each decoder layer's cross-attention, if there is a decoder

  // The index of the cache that the encoder's layers share, one after the other. It follows the decoder's
  // caches and those of its cross-attention.
  uint32_t own_cache() const { return 2 * static_cast<uint32_t>(memory.size()); }
  EncoderShape shape() const;
};

// The names of the classifier's labels, in order: id2label or, if it is absent, num_labels default names.
Result<std::vector<std::string>> read_labels(const Settings& settings);

std::vector<Hyperparameter> hyperparameters(const EncoderConfig& config);

} // namespace pumice
