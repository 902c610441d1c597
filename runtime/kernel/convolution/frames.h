#pragma once

#include "graph/graph.h"
#include "kernel/activation.h"

namespace pumice {

// Convolutions over the frames of inputs whose lengths differ, as a sound's decoder has them. An input's
// frames follow each other over its rows of the step.

// Where a tensor's frames lie. So many rows of the step are one frame of the input, and `rate` frames of the
// tensor.
struct FrameLayout {
  uint32_t rows = 1;
  uint32_t rate = 1;
  uint32_t lacking = 0; // of all those, at the end
  uint32_t channels = 0;
  uint32_t per_row = 1; // frames that a row of the tensor has room for; one lies at the row's beginning

  uint32_t columns() const { return per_row * channels; }
};

// result[t, o] = activation(bias[o] + sum over taps and channels of x[t * stride + tap * dilation - padding,
// c] * weight[tap, c, o]), with zeros outside. Transposed, x[f, c] * weight[tap, c, o] is added to the
// result's frame f * stride + tap - padding. Channels of x are a multiple of four. inputs: x. weights: [taps
// * channels, channels of the result up to a multiple of four], the bias.
struct ConvolveFrames : Operation {
  FrameLayout x, result;
  uint32_t taps = 1;
  uint32_t stride = 1;
  uint32_t dilation = 1; // 1 if transposed
  uint32_t padding = 0;
  bool transposed = false;
  Activation activation = Activation::none;

  // Sets the result's layout. unsupported where it would have more frames than a multiple of the input's, or
  // frames that do not divide by the stride.
  Status set_result(uint32_t channels);
  // The frames of x, on either side of the one at its place, that a frame of the result may read.
  uint32_t reach() const;
  std::string_view name() const override { return "convolve_frames"; }
  std::string describe() const override;
  Status lower(Lowering& lowering, const Node& node) const override;
};

// result = x + sin(alpha x)^2 / (alpha + least), with an alpha for each channel (Ziyin et al., Neural
// Networks Fail to Learn Periodic Functions and How to Fix It, 2020). inputs: x, of frames. weights: alpha
// [channels].
struct Snake : Operation {
  uint32_t channels = 0; // a multiple of four
  float least = 0;

  std::string_view name() const override { return "snake"; }
  std::string describe() const override;
  bool by_row() const override { return true; }
  Status lower(Lowering& lowering, const Node& node) const override;
};

TensorId convolve_frames(Graph& graph, std::string name, TensorId x, const ConvolveFrames& operation,
                         WeightId weight, WeightId bias);
TensorId snake(Graph& graph, std::string name, TensorId x, const Snake& operation, WeightId alpha);

} // namespace pumice
