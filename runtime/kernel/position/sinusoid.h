#pragma once

#include "graph/graph.h"
#include "shaders/position/sinusoid.params.h"

namespace pumice {

// How sines and cosines share the columns (Vaswani et al., Attention Is All You Need, 2017). Of an odd number
// of columns the sines have one more.
enum class SinusoidLayout : uint32_t {
  interleaved = SINUSOID_LAYOUT_INTERLEAVED, // sine in even columns, cosine in odd ones
  halves = SINUSOID_LAYOUT_HALVES,           // sines first, then cosines
};

// result = x + the sinusoidal encoding of the row's position, counted from where its text begins: sines and
// cosines of position / 10000^(2i / columns). inputs: x [tokens, columns].
struct SinusoidalPositions : Operation {
  SinusoidLayout layout = SinusoidLayout::interleaved;

  std::string_view name() const override { return "sinusoidal_positions"; }
  std::string describe() const override;
  Status lower(Lowering& lowering, const Node& node) const override;
};

TensorId sinusoidal_positions(Graph& graph, std::string name, TensorId x, SinusoidLayout layout);

} // namespace pumice
