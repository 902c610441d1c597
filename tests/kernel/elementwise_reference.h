#pragma once

#include <algorithm>
#include <cmath>
#include <numbers>
#include <span>
#include <vector>

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

// What is left of a row above its mean and so many of its standard deviations.
inline std::vector<double> sparse_gate_reference(std::span<const float> a, double deviations) {
  const double count = static_cast<double>(a.size());
  double mean = 0, variance = 0;
  for (const float v : a) mean += v / count;
  for (const float v : a) variance += (v - mean) * (v - mean) / count;
  std::vector<double> y;
  for (const float v : a) y.push_back(std::max(0.0, v - mean - deviations * std::sqrt(variance)));
  return y;
}
