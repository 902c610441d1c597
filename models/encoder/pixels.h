#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>

#include "kernel/cells/cells.h"
#include "models/encoder/builder.h"

namespace pumice {

// Layers over a picture's pixels, which lie in one row of the step for each picture: products are over
// pixels. Names are Hugging Face's, after the builder's prefix.
class PixelBuilder {
public:
  PixelBuilder(EncoderBuilder& builder, const CellLayout& pixels, uint32_t channels, float norm_eps)
      : builder_(builder), pixels_(pixels), channels_(channels), norm_eps_(norm_eps) {}

protected:
  struct Input {
    TensorId x;
    WeightId bias; // zeros if the model has none
  };
  struct FeedForward {
    std::string up, down; // names
    uint32_t inner = 0;   // columns between them
    Activation activation = Activation::gelu;
  };

  EncoderBuilder& builder() const { return builder_; }
  Graph& graph() const { return builder_.graph(); }
  const CellLayout& pixels() const { return pixels_; }
  uint32_t channels() const { return channels_; } // of a pixel

  std::string node(std::string_view name) const { return builder_.prefix() + std::string(name); }
  WeightId weight(const WeightView& view) const;
  WeightId bias(std::string_view name, uint32_t rows) const;
  WeightId zeros(std::string_view name, uint32_t count) const;
  // A convolution's weights [to, from, kernel, kernel] as the kernels read them.
  WeightId taps(const std::string& name, uint32_t to, uint32_t from, uint32_t kernel) const;

  TensorId norm(TensorId x, std::string_view name, uint32_t columns) const;
  // x of each pixel, or of each so many columns, times a matrix.
  TensorId product(TensorId x, const std::string& name, const WeightView& matrix) const;
  TensorId project(TensorId x, const std::string& name, uint32_t rows) const;
  TensorId sums(TensorId x, const std::string& name, std::optional<TensorId> residual, WeightId added,
                uint32_t channels, Activation activation = Activation::none) const;
  TensorId biased(TensorId x, const std::string& name, TensorId residual) const;
  // Queries, keys and values of one tensor.
  std::array<Input, 3> project_inputs(const std::string& attention, TensorId x, bool input_bias) const;
  // What is between its products has several times the numbers of x, which have to fit a buffer: parts of the
  // picture's lines, of which the last may have fewer, take the same memory one after the other.
  TensorId feed_forward(TensorId x, TensorId residual, const FeedForward& own) const;

private:
  EncoderBuilder& builder_;
  const CellLayout pixels_;
  const uint32_t channels_;
  const float norm_eps_;
};

} // namespace pumice
