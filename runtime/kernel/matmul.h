#pragma once

#include <optional>
#include <vector>

#include "kernel/activation.h"
#include "kernel/activation_ref.h"
#include "kernel/dispatch.h"
#include "kernel/packed_weight.h"
#include "kernel/style.h"

namespace pumice {

// result[m, n] = epilogue(sum over k of x[m, k] * weight[n, k] + bias[n]) + residual[m, n].
// x: [rows, columns of the weight], result: [rows, 8 * tiles], or half of that when gated.
struct MatmulArgs {
  ActivationRef x;
  PackedFormat format;
  WeightSegment weight;
  std::optional<BufferRef> bias;
  std::optional<ActivationRef> residual;
  Activation activation = Activation::none;
  bool gated = false; // the weight's tiles alternate between gate and up: activation(gate) * up
  ActivationRef result;
  BufferRef step;
};

Dispatch matmul(const KernelStyle& style, const MatmulArgs& args);

} // namespace pumice
