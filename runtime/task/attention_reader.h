#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "generate/forced_pass.h"
#include "model/model.h"

namespace pumice {

// The decoder's attention to the encoder's input, in one layer. Row i is the attention with which the decoder
// chose token i of a text.
struct AttentionMap {
  uint32_t heads = 0;
  size_t queries = 0, keys = 0; // tokens of the text, and positions of the input
  std::vector<float> by_head;   // [heads, queries, keys]

  // [queries, keys]: those of one head, or the mean of all.
  std::vector<float> of(std::optional<uint32_t> head) const;
};

// Runs texts through the model once more, to read the attention. Used by one thread at a time.
class AttentionReader {
public:
  AttentionReader(std::shared_ptr<const Model> model, uint32_t layer);

  // Compiles the kernels for texts of a usual length. Longer ones need few others.
  Status prepare(const Making& making);

  // `prompt`: the decoder's, of which the weights have no rows. `output`: the text's tokens, at least one.
  Result<AttentionMap> read(const EncoderInput& input, std::span<const uint32_t> prompt,
                            std::span<const uint32_t> output);

private:
  Status make_room(size_t input_tokens, size_t tokens);

  std::shared_ptr<const Model> model_;
  std::string name_; // of the weights
  uint32_t heads_;
  std::unique_ptr<ForcedPass> pass_;
  size_t input_tokens_ = 0, tokens_ = 0; // that it has room for
  uint32_t chunk_ = 0;                   // most tokens of a step; 0: as usual
};

} // namespace pumice
