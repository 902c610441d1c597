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

// How the frequencies lie between 1 and 1 / 10000.
enum class SinusoidSpacing {
  open,   // 10000^(-2i / columns): the paper's, which ends before 1 / 10000
  closed, // 10000^(-2i / (columns - 2)): that of tensor2tensor and fairseq, which ends with it
};

struct Sinusoids {
  SinusoidLayout layout = SinusoidLayout::interleaved;
  SinusoidSpacing spacing = SinusoidSpacing::open; // closed: of an even number of columns, at least 4
  uint32_t first = 0;                              // the number of a text's first position
};

// result = x + the sinusoidal encoding of the row's position, counted from where its text begins: sines and
// cosines of (first + position) * frequency. inputs: x [tokens, columns].
struct SinusoidalPositions : Operation {
  Sinusoids sinusoids;

  std::string_view name() const override { return "sinusoidal_positions"; }
  std::string describe() const override;
  Status lower(Lowering& lowering, const Node& node) const override;
};

TensorId sinusoidal_positions(Graph& graph, std::string name, TensorId x, const Sinusoids& sinusoids);

} // namespace pumice
