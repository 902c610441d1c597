#pragma once

#include <optional>
#include <vector>

#include "models/decoder/decoder.h"

namespace pumice {

// The lightning indexer of DeepSeek V3.2 (DeepSeek-AI 2025) and GLM-5 (GLM Team 2026): small queries and a
// key of each position choose which positions a row attends to. A cache of its own has the keys.
struct Indexer {
  uint32_t heads = 0;
  uint32_t head_dim = 0;
  uint32_t most = 0;                           // positions that a row attends to
  RotaryPairs pairs = RotaryPairs::half_split; // of its queries and keys, unlike those of the attention
  std::vector<bool> full;                      // by layer; the others take the choice of the last full one

  // For attention in a layer that reads x. `compressed`: its normed query of low rank.
  void choose(DecoderBuilder& builder, uint32_t layer, TensorId x, TensorId compressed,
              AttentionStyle& style) const;
};

// Gives the decoder the indexer's caches and settings. None: the model attends to all positions, or has no
// weights of an indexer in its GGUF file, and is read up to the positions that it would choose.
Result<std::optional<Indexer>> read_indexer(const Settings& settings, Decoder& decoder);

} // namespace pumice
