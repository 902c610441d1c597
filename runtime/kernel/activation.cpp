#include "kernel/activation.h"

namespace pumice {

const char* to_string(Activation activation) {
  switch (activation) {
  case Activation::none:
    return "none";
  case Activation::silu:
    return "silu";
  case Activation::gelu:
    return "gelu";
  case Activation::gelu_tanh:
    return "gelu_tanh";
  case Activation::relu:
    return "relu";
  case Activation::tanh:
    return "tanh";
  case Activation::quick_gelu:
    return "quick_gelu";
  }
  return "unknown";
}

} // namespace pumice
