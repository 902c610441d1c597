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
// layer: result = (x - mean(x)) / sqrt(variance(x) + eps) * weight + bias
struct NormArgs {
  NormKind kind = NormKind::rms;
  ActivationRef x;
  BufferRef weight; // [columns], padded to a multiple of 32
  std::optional<BufferRef> bias;
  float eps = 0;
  float weight_offset = 0;
  ActivationRef result; // of x's shape
  BufferRef step;
};

Dispatch norm(const DeviceProfile& profile, const NormArgs& args);

// inputs: x. weights: the weight.
struct RmsNorm : Operation {
  float eps = 0;
  float weight_offset = 0; // Gemma's files hold the weight less 1

  std::string_view name() const override { return "rms_norm"; }
  std::string describe() const override;
  bool by_row() const override { return true; }
  Status lower(Lowering& lowering, const Node& node) const override;
};

// inputs: x. weights: the weight, then the bias if any.
struct LayerNorm : Operation {
  float eps = 0;

  std::string_view name() const override { return "layer_norm"; }
  std::string describe() const override;
  bool by_row() const override { return true; }
  Status lower(Lowering& lowering, const Node& node) const override;
};

TensorId rms_norm(Graph& graph, std::string name, TensorId x, WeightId weight, float eps,
                  float weight_offset = 0);
TensorId layer_norm(Graph& graph, std::string name, TensorId x, WeightId weight, std::optional<WeightId> bias,
                    float eps);

} // namespace pumice
