#pragma once

#include <cmath>
#include <span>
#include <vector>

// A row of RMS normalisation (Zhang and Sennrich 2019), in 64 bits.
inline std::vector<double> rms_norm_reference(std::span<const float> x, std::span<const float> weight,
                                              double eps, double offset) {
  double squares = 0;
  for (float v : x) squares += double{v} * v;
  const double scale = 1 / std::sqrt(squares / static_cast<double>(x.size()) + eps);
  std::vector<double> y(x.size());
  for (size_t i = 0; i < x.size(); ++i) y[i] = x[i] * scale * (weight[i] + offset);
  return y;
}

// A row of layer normalisation (Ba et al. 2016), in 64 bits; `bias` may be empty.
inline std::vector<double> layer_norm_reference(std::span<const float> x, std::span<const float> weight,
                                                std::span<const float> bias, double eps) {
  double mean = 0, variance = 0;
  for (float v : x) mean += v;
  mean /= static_cast<double>(x.size());
  for (float v : x) variance += (v - mean) * (v - mean);
  const double scale = 1 / std::sqrt(variance / static_cast<double>(x.size()) + eps);
  std::vector<double> y(x.size());
  for (size_t i = 0; i < x.size(); ++i) {
    y[i] = (x[i] - mean) * scale * weight[i] + (bias.empty() ? 0 : bias[i]);
  }
  return y;
}
