#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <span>
#include <vector>

// Rows of several streams, in 64 bits.

// What tangents of a row's routed numbers, one for each stream, make of the coefficients.
inline std::vector<double> stream_factors(std::span<const float> coefficients, std::span<const float> routed,
                                          double scale) {
  const size_t streams = routed.size();
  std::vector<double> factors(coefficients.size() / streams);
  for (size_t i = 0; i < coefficients.size(); ++i)
    factors[i / streams] += coefficients[i] * std::tanh(scale * routed[i % streams]);
  return factors;
}

// x with what the factors take of all streams added to each.
inline std::vector<double> predict_reference(std::span<const float> x, std::span<const double> factors,
                                             size_t streams) {
  const size_t columns = x.size() / streams;
  std::vector<double> y(x.begin(), x.end());
  for (size_t i = 0; i < x.size(); ++i) {
    for (size_t from = 0; from < streams; ++from)
      y[i] += factors[i / columns * streams + from] * x[from * columns + i % columns];
  }
  return y;
}

// x with what was computed, less the prediction of it, added to each stream.
inline std::vector<double> correct_reference(std::span<const float> x, std::span<const float> computed,
                                             std::span<const double> factors, size_t active) {
  const size_t columns = computed.size();
  std::vector<double> y(x.begin(), x.end());
  for (size_t i = 0; i < x.size(); ++i)
    y[i] += (factors[i / columns] + 1) * (double{computed[i % columns]} - x[active * columns + i % columns]);
  return y;
}

// The first stream and the others with its root mean square.
inline std::vector<double> match_reference(std::span<const float> first, std::span<const float> others) {
  const size_t columns = first.size();
  const auto square = [&](std::span<const float> values) {
    double sum = 0;
    for (const float v : values) sum += double{v} * v;
    return sum / static_cast<double>(columns);
  };
  std::vector<double> y(first.begin(), first.end());
  for (size_t begin = 0; begin < others.size(); begin += columns) {
    const std::span<const float> stream = others.subspan(begin, columns);
    const double factor = std::sqrt(square(first)) / std::sqrt(std::max(square(stream), 1e-5));
    for (const float v : stream) y.push_back(factor * v);
  }
  return y;
}
