#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"

namespace pumice {

// The part of a decoder that one device computes: the layers from `first` up to `end`. The first stage also
// has the embedding, the last one the final norm and the head. A tied table of both is in both stages.
struct Stage {
  uint32_t first = 0;
  uint32_t end = UINT32_MAX; // clamped to the number of layers

  bool begins() const { return first == 0; }
  bool ends(uint32_t layers) const { return end >= layers; }
  bool whole(uint32_t layers) const { return begins() && ends(layers); }
  bool operator==(const Stage&) const = default;
};

struct ModelShape;

// A model's stages by their numbers of layers, in order. An error unless all layers are in one stage each, no
// stage is empty, and the model can be cut there. `name`: of the model, for error messages.
Result<std::vector<Stage>> stages_of(const std::string& name, const ModelShape& shape,
                                     std::span<const uint32_t> layers);
// Numbers of layers as equal as the model allows.
Result<std::vector<uint32_t>> even_split(const std::string& name, const ModelShape& shape, uint32_t stages);
// Whether a model can be cut into stages at all.
Status check_stages(const std::string& name, const ModelShape& shape);

} // namespace pumice
