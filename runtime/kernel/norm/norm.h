#pragma once

#include <optional>

#include "graph/graph.h"
#include "kernel/activation_ref.h"
#include "kernel/device_profile.h"

namespace pumice {

enum class NormKind : uint32_t {
  rms,   // Zhang and Sennrich, Root Mean Square Layer Normalization, 2019
  layer, // Ba, Kiros and Hinton, Layer Normalization, 2016
};

// rms: result = x / sqrt(mean(x^2) + eps) * (weight + weight_offset)
// layer: result = (x - mean(x)) / sqrt(variance(x) + eps) * (weight + weight_offset) + bias
// With several groups, each group of a row's columns has its own mean and variance.
struct NormArgs {
  NormKind kind = NormKind::rms;
  ActivationRef x;
  uint32_t groups = 1; // equal parts of a row; if there are several, each has a multiple of four columns
  BufferRef weight;    // [columns of a group], padded to a multiple of 32
  std::optional<BufferRef> bias;
  float eps = 0;
  float weight_offset = 0;
  ActivationRef result; // of x's shape
  BufferRef step;
};

Dispatch norm(const DeviceProfile& profile, const NormArgs& args);

// inputs: x. weights: the weight.
struct RmsNorm : Operation {
  uint32_t groups = 1; // equal parts of a row, each with a norm of its own and the same weight
  float eps = 0;
  float weight_offset = 0; // Gemma's files hold the weight less 1

  std::string_view name() const override { return "rms_norm"; }
  std::string describe() const override;
  bool by_row() const override { return true; }
  Status lower(Lowering& lowering, const Node& node) const override;
};

// inputs: x. weights: the weight, then the bias if any.
struct LayerNorm : Operation {
  uint32_t groups = 1; // as in RmsNorm
  float eps = 0;
  float weight_offset = 0;

  std::string_view name() const override { return "layer_norm"; }
  std::string describe() const override;
  bool by_row() const override { return true; }
  Status lower(Lowering& lowering, const Node& node) const override;
};

TensorId rms_norm(Graph& graph, std::string name, TensorId x, WeightId weight, float eps,
                  float weight_offset = 0);
// A norm of each of the equal groups of a row's columns, which have the same weight.
TensorId grouped_rms_norm(Graph& graph, std::string name, TensorId x, WeightId weight, uint32_t groups,
                          float eps);
TensorId grouped_layer_norm(Graph& graph, std::string name, TensorId x, WeightId weight, WeightId bias,
                            uint32_t groups, float eps);
TensorId layer_norm(Graph& graph, std::string name, TensorId x, WeightId weight, std::optional<WeightId> bias,
                    float eps, float weight_offset = 0);

} // namespace pumice
