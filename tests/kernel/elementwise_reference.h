#pragma once

#include <algorithm>
#include <cmath>
#include <numbers>

#include "kernel/elementwise/elementwise.h"

// The activations, in 64 bits.
inline double activation_reference(pumice::Activation activation, double x) {
  switch (activation) {
  case pumice::Activation::none:
    return x;
  case pumice::Activation::silu:
    return x / (1 + std::exp(-x));
  case pumice::Activation::gelu:
    return 0.5 * x * std::erfc(-x / std::numbers::sqrt2);
  case pumice::Activation::gelu_tanh:
    return 0.5 * x * (1 + std::tanh(std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x)));
  case pumice::Activation::relu:
    return x > 0 ? x : 0;
  case pumice::Activation::tanh:
    return std::tanh(x);
  case pumice::Activation::quick_gelu:
    return x / (1 + std::exp(-1.702 * x));
  }
  return NAN;
}

inline double xielu_reference(const pumice::XieluCurve& curve, double x) {
  if (x > 0) return curve.slope * x + curve.rise * x * x;
  return curve.slope * x + curve.fall * (std::expm1(std::min(x, double{curve.end})) - x);
}
