#pragma once

#include "graph/graph.h"
#include "shaders/image/grid_positions.params.h"
#include "shaders/image/join_patches.params.h"
#include "shaders/image/patch_windows.params.h"

namespace pumice {

// How a picture is divided into patches, row by row.
struct PatchShape {
  uint32_t channels = 3;
  uint32_t height = 0; // of the picture; what is left at its lower and right edges is in no patch
  uint32_t width = 0;
  uint32_t patch_height = 0;
  uint32_t patch_width = 0;

  uint32_t count() const { return (height / patch_height) * (width / patch_width); }
  uint32_t columns() const { return channels * patch_height * patch_width; }
};

// Copies the patches of the host's pictures into rows: the convolution of patch embeddings is a product with
// these rows. inputs: pixels [outputs, channels * height * width], a picture a row, in planes. A row of the
// step is a patch of the picture that its token names. The patch's number is the row's position minus the
// first position of its input, minus `lead`; the first `lead` rows of an input are zeros, for the model's own
// tokens. output: [tokens, channels
// * patch_height * patch_width], ordered as a convolution's weights are.
struct Patches : Operation {
  PatchShape shape;
  uint32_t lead = 0;

  std::string_view name() const override { return "patches"; }
  std::string describe() const override;
  Status lower(Lowering& lowering, const Node& node) const override;
};

// result = x, but in one row of each input (a class token is the first) the weight. inputs: x
// [tokens, columns]. weights: a vector of as many rows; a file's [1, 1, columns] is that when seen
// transposed.
struct LeadToken : Operation {
  uint32_t row = 0; // counted from the input's first

  std::string_view name() const override { return "lead_token"; }
  std::string describe() const override;
  Status lower(Lowering& lowering, const Node& node) const override;
};

// Rows of x that are patches of a grid, as Patches gives them, become a row for each window of
// `window` x `window` of them. The windows' rows come first in each input, row by row of the grid, and the
// others are zeros. The patches that are left at the grid's lower and right edges are in no window.
// inputs: x [tokens, columns]. output: [tokens, columns], or window * window times as many where they are
// joined.
struct PatchWindows : Operation {
  enum class Rule : uint32_t {
    joined = PATCH_WINDOWS_JOINED,     // the patches' columns one after the other
    averaged = PATCH_WINDOWS_AVERAGED, // their mean
  };
  Rule rule = Rule::joined;
  uint32_t height = 0, width = 0; // of the grid, in patches
  uint32_t window = 1;
  uint32_t lead = 0; // an input's rows before its patches, which are left out

  uint32_t count() const { return (height / window) * (width / window); }
  std::string_view name() const override { return "patch_windows"; }
  std::string describe() const override;
  Status lower(Lowering& lowering, const Node& node) const override;
};

// Each `joined` neighbouring rows of an input, patches or frames of a sound, become one: their columns one
// after the other, or their mean. These rows come first in each input, and the others are zeros. inputs: x
// [tokens, columns]. output: [tokens, joined * columns], or [tokens, columns].
struct JoinPatches : Operation {
  enum class Rule : uint32_t { joined = JOIN_PATCHES_JOINED, averaged = JOIN_PATCHES_AVERAGED };
  Rule rule = Rule::joined;
  uint32_t joined = 1;

  std::string_view name() const override { return "join_patches"; }
  std::string describe() const override;
  Status lower(Lowering& lowering, const Node& node) const override;
};

// Adds to each patch what a square table of learned positions has at its place, by interpolation to the
// picture's size, or what two tables have for places across and down. inputs: x [tokens, columns]. weights:
// the table, [side * side, columns], or [2 * side, columns]. The rows' tokens are the sizes of their pictures
// (shaders/common/step.h).
struct GridPositions : Operation {
  enum class Rule : uint32_t {
    linear = GRID_POSITIONS_LINEAR, // the picture's corners are the table's
    cubic = GRID_POSITIONS_CUBIC,   // its patches divide what the table's positions do
    apart = GRID_POSITIONS_APART,   // the sum of a place across and one down, as they are
    before = GRID_POSITIONS_BEFORE, // that of the table's parts which a patch begins in, unchanged
  };
  Rule rule = Rule::linear;
  uint32_t side = 0;

  std::string_view name() const override { return "grid_positions"; }
  std::string describe() const override;
  Status lower(Lowering& lowering, const Node& node) const override;
};

TensorId patches(Graph& graph, std::string name, TensorId pixels, const PatchShape& shape, uint32_t lead);
TensorId patch_windows(Graph& graph, std::string name, TensorId x, const PatchWindows& operation);
TensorId join_patches(Graph& graph, std::string name, TensorId x, uint32_t joined,
                      JoinPatches::Rule rule = JoinPatches::Rule::joined);
TensorId grid_positions(Graph& graph, std::string name, TensorId x, WeightId table, uint32_t side,
                        GridPositions::Rule rule = GridPositions::Rule::linear);
TensorId lead_token(Graph& graph, std::string name, TensorId x, WeightId token, uint32_t row = 0);

} // namespace pumice
