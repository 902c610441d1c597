#pragma once

#include "graph/graph.h"

namespace pumice {

// Rows that a one-dimensional convolution's weights [out, in * width] are multiplied with, so that it is a
// product. Whisper's front end: the first convolution goes over the host's features at every frame, the
// second over its results at every other one. A row of the step stands for two frames, and the first
// convolution is made for even frames and for odd ones apart, each with a row for a row of the step.

// Of features [outputs, in * frames], an input a row, its channels one after the other: column c * width + k
// of a row at position p, counted from where its text begins, is channel c at frame p * stride + first + k,
// zero outside the frames. The row's token says which input. output: [tokens, in * width].
struct FrameWindows : Operation {
  uint32_t channels = 0;
  uint32_t frames = 0;
  uint32_t width = 3;
  uint32_t stride = 2;
  int32_t first = -1;

  std::string_view name() const override { return "frame_windows"; }
  std::string describe() const override;
  Status lower(Lowering& lowering, const Node& node) const override;
};

// Of even frames and odd frames, both [tokens, in]: columns c * 3 to c * 3 + 2 are channel c of the odd frame
// before the row's even one (zero in the first row of an input), of its even frame and of its odd frame.
// inputs: even, odd. output: [tokens, in * 3].
struct PairWindows : Operation {
  std::string_view name() const override { return "pair_windows"; }
  Status lower(Lowering& lowering, const Node& node) const override;
};

TensorId frame_windows(Graph& graph, std::string name, TensorId features, const FrameWindows& operation);
TensorId pair_windows(Graph& graph, std::string name, TensorId even, TensorId odd);

} // namespace pumice
