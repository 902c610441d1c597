#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"

namespace pumice {

// The part of a model that one device computes: the layers from `first` up to `end`. Those of an encoder come
// first, then the decoder's. The stage with the first layer of the encoder or of the decoder also has its
// embedding, the one with the last layer of either its final norm, and the last stage the head. A decoder
// layer's stage projects the encoder's output to the keys and values of its cross-attention and keeps them. A
// tied table is in each stage that reads it.
struct Stage {
  uint32_t first = 0;
  uint32_t end = UINT32_MAX; // clamped to the number of layers

  bool begins() const { return first == 0; }
  bool ends(uint32_t layers) const { return end >= layers; }
  bool whole(uint32_t layers) const { return begins() && ends(layers); }
  bool empty() const { return first >= end; }
  // What it has of `count` layers from `from` on, counted from there.
  Stage within(uint32_t from, uint32_t count) const {
    const auto place = [&](uint32_t at) { return std::clamp(at, from, from + count) - from; };
    return {place(first), place(end)};
  }
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
// "layers 0 to 11", or of a model with an encoder "encoder layers 4 to 5, decoder layers 0 to 2".
std::string layers_text(const Stage& stage, const ModelShape& shape);

} // namespace pumice
