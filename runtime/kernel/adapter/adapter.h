#pragma once

#include "graph/graph.h"
#include "io/tensor_type.h"
#include "kernel/activation.h"
#include "kernel/activation_ref.h"
#include "kernel/device_profile.h"
#include "kernel/dispatch.h"
#include "kernel/step_layout.h"

namespace pumice {

// Low-rank adapters (Hu et al., LoRA, 2021): y = W x + scale * B (A x), where the sequence of a row says
// which A and B, and the scale. The adapters' matrices lie in places of equal size, padded with zeros, so
// that a step's rows may have different ones (kernel/adapter/adapter_packing.h).

// h = A x, the A of several products that read the same x.
struct AdapterDownArgs {
  ActivationRef x;
  BufferRef matrix; // [places, members] matrices
  TensorType numbers = TensorType::f32;
  uint32_t members = 1;
  uint32_t rank = 0; // a padded_adapter_rank()
  // The products add the second half themselves (MatmulAdapter), as those of the tier cpu8 do.
  bool for_products = false;
  ActivationRef result; // [rows, adapter_h_columns()]
  BufferRef step;
  StepLayout step_layout; // with adapters
};
Dispatch adapter_down(const DeviceProfile& profile, const AdapterDownArgs& args);
uint32_t adapter_h_columns(bool for_products, uint32_t members, uint32_t rank);

// ADAPTER_*: how kernels are told of a type.
uint32_t adapter_numbers(TensorType numbers);

// result = activation(y + scale * B h); if gated, activation(y0 + scale * B0 h0) * (y1 + scale * B1 h1).
struct AdapterUpArgs {
  ActivationRef y;  // if gated, eight columns of y0, eight of y1, and so on
  ActivationRef h;  // the part of adapter_down()'s result for this product
  BufferRef matrix; // [places, 1 or 2] matrices
  TensorType numbers = TensorType::f32;
  uint32_t rank = 0;
  bool gated = false;
  Activation activation = Activation::none;
  ActivationRef result;
  BufferRef step;
  StepLayout step_layout;
};
Dispatch adapter_up(const DeviceProfile& profile, const AdapterUpArgs& args);

// inputs: x. weights: those that the members are added to, two of a gated product.
struct AdapterDown : Operation {
  bool for_products = false;
  uint32_t rank = 0;
  TensorType numbers = TensorType::f32;
  BufferRef matrix;

  std::string_view name() const override { return "adapter_down"; }
  std::string describe() const override;
  bool by_row() const override { return true; }
  Status lower(Lowering& lowering, const Node& node) const override;
};

// inputs: y, h. weights: the product's, two if it is gated.
struct AdapterUp : Operation {
  uint32_t rank = 0;
  TensorType numbers = TensorType::f32;
  BufferRef matrix;
  bool gated = false;
  Activation activation = Activation::none;

  std::string_view name() const override { return "adapter_up"; }
  std::string describe() const override;
  bool by_row() const override { return true; }
  Status lower(Lowering& lowering, const Node& node) const override;
};

} // namespace pumice
