#pragma once

#include "shaders/common/activation.h"

namespace pumice {

// The non-linearity of a feed-forward layer.
enum class Activation : uint32_t {
  none = ACTIVATION_NONE,
  silu = ACTIVATION_SILU,           // x * sigmoid(x)
  gelu = ACTIVATION_GELU,           // x * Phi(x), Phi the normal distribution's cumulative function
  gelu_tanh = ACTIVATION_GELU_TANH, // GELU through tanh, as GPT-2 has it
  relu = ACTIVATION_RELU,
  tanh = ACTIVATION_TANH,
  quick_gelu = ACTIVATION_QUICK_GELU, // x * sigmoid(1.702 x), as CLIP has it
};

const char* to_string(Activation activation);

} // namespace pumice
