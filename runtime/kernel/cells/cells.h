#pragma once

#include <optional>
#include <string>

#include "graph/graph.h"
#include "kernel/activation.h"

namespace pumice {

// Pictures whose pixels become fewer from stage to stage while the rows of a step stay as many: a row is a
// cell of the picture, a square of pixels, each with its channels. They lie in the order of
// shaders/cells/cells.glsl, in which four pixels that become one are neighbours.
struct CellLayout {
  uint32_t height = 0, width = 0; // of the picture, in pixels of this stage
  uint32_t side = 1;              // of a cell, a power of two
  bool whole = false;             // a row is a picture, pixel after pixel, line by line

  uint32_t across() const { return whole ? 1 : (width + side - 1) / side; }
  uint32_t count() const { return whole ? 1 : across() * ((height + side - 1) / side); }
  uint32_t pixels() const { return whole ? height * width : side * side; } // of a row
  // Pictures of a row each, such as convolutions over pictures have them.
  static CellLayout of_pictures(uint32_t height, uint32_t width) { return {height, width, 1, true}; }
  // Cells of a picture without edges, for what goes over pixels wherever they are.
  static CellLayout endless(uint32_t side) { return {1u << 30, 1u << 30, side}; }
  // The same after four pixels became one.
  CellLayout halved() const { return {(height + 1) / 2, (width + 1) / 2, side / 2}; }
};

// The host's pictures, [outputs, channels * height * width] in planes, as cells of patches: a patch's numbers
// are ordered as a convolution's weights are. What a picture lacks at its lower and right edges is zeros.
// inputs: pixels. output: [tokens, pixels of a cell * channels * patch_height * patch_width].
struct CellPatches : Operation {
  CellLayout cells; // whose pixels are patches
  uint32_t channels = 3, height = 0, width = 0;
  uint32_t patch_height = 1, patch_width = 1;

  std::string_view name() const override { return "cell_patches"; }
  std::string describe() const override;
  Status lower(Lowering& lowering, const Node& node) const override;
};

// Each pixel attends to those of its window, head by head; there may be a bias by their places' difference.
// With a shift windows begin so many pixels later; see shaders/cells/cell_attention.params.h. The last
// windows may reach beyond the picture: there are pixels whose key and value are the biases of these. inputs:
// queries, keys, values [rows, pixels of a row * channels], then scores of distances if there are such
// [rows, pixels of a row * heads * score_columns()]: what a pixel's head adds to the score of a key so far
// above or below, from window - 1 below on, and to that of one so far to the left or the right. weights: the
// biases of keys and of values [channels], then the table of the bias by place [(2 * window - 1)^2, heads] if
// there is one.
struct CellAttention : Operation {
  CellLayout cells;
  uint32_t heads = 1;
  uint32_t window = 1, shift = 0;

  // Of a head: two parts of 2 * window - 1 distances, and a column behind each.
  uint32_t score_columns() const { return 4 * window; }
  std::string_view name() const override { return "cell_attention"; }
  std::string describe() const override;
  Status lower(Lowering& lowering, const Node& node) const override;
};

// result = activation(x + bias) + residual, and zeros in pixels outside of the picture. inputs: x, then the
// residual if there is one. weights: the bias [channels].
struct CellSums : Operation {
  CellLayout cells;
  Activation activation = Activation::none;

  std::string_view name() const override { return "cell_sums"; }
  std::string describe() const override;
  Status lower(Lowering& lowering, const Node& node) const override;
};

TensorId cell_patches(Graph& graph, std::string name, TensorId pixels, const CellPatches& operation);
TensorId cell_attention(Graph& graph, std::string name, TensorId query, TensorId key, TensorId value,
                        const CellAttention& operation, WeightId key_bias, WeightId value_bias,
                        std::optional<WeightId> table, std::optional<TensorId> scores = {});
TensorId cell_sums(Graph& graph, std::string name, TensorId x, std::optional<TensorId> residual,
                   const CellSums& operation, WeightId bias);

} // namespace pumice
