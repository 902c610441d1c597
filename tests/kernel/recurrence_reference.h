#pragma once

#include <cmath>
#include <span>
#include <vector>

#include "kernel/recurrence/recurrence.h"

// The operations over a whole text in 64 bits. Rows of `columns` numbers lie one after the other.

inline double silu_reference(double x) {
  return x / (1 + std::exp(-x));
}

inline double softplus_reference(double x) {
  return x > 20 ? x : std::log1p(std::exp(x));
}

inline std::vector<double> causal_convolution_reference(std::span<const float> x, uint32_t columns,
                                                        std::span<const float> weights,
                                                        std::span<const float> bias, uint32_t taps) {
  std::vector<double> out(x.size());
  for (size_t row = 0; row * columns < x.size(); ++row) {
    for (uint32_t c = 0; c < columns; ++c) {
      double sum = bias.empty() ? 0 : bias[c];
      for (uint32_t k = 0; k < taps && k <= row; ++k) {
        sum += double{weights[c * taps + taps - 1 - k]} * x[(row - k) * columns + c];
      }
      out[row * columns + c] = silu_reference(sum);
    }
  }
  return out;
}

struct ScanReference {
  std::span<const float> x, b, c, steps, step_bias, log_a, skip;
};

inline std::vector<double> selective_scan_reference(const pumice::SelectiveScan& shape,
                                                    const ScanReference& in) {
  const uint32_t columns = shape.columns(), shared = shape.groups * shape.size;
  std::vector<double> state(size_t{columns} * shape.size), out(in.x.size());
  for (size_t row = 0; row * columns < in.x.size(); ++row) {
    for (uint32_t channel = 0; channel < columns; ++channel) {
      const uint32_t head = channel / shape.head_dim, group = head / (shape.heads / shape.groups);
      const double step = softplus_reference(double{in.steps[row * shape.heads + head]} + in.step_bias[head]);
      const double own = in.x[row * columns + channel];
      double sum = in.skip[head] * own;
      for (uint32_t n = 0; n < shape.size; ++n) {
        double& s = state[size_t{channel} * shape.size + n];
        const size_t rate = shape.wide ? head * shape.size + n : head;
        const double keep = std::exp(-std::exp(double{in.log_a[rate]}) * step);
        const size_t at = row * shared + group * shape.size + n;
        s = s * keep + step * own * in.b[at];
        sum += s * in.c[at];
      }
      out[row * columns + channel] = sum;
    }
  }
  return out;
}

struct DeltaReference {
  std::span<const float> query, key, value, decays, rates, decay_bias, log_a;
};

inline std::vector<double> delta_rule_reference(const pumice::DeltaRule& shape, const DeltaReference& in) {
  const uint32_t columns = shape.columns(), keys = shape.key_heads * shape.key_dim, size = shape.key_dim;
  std::vector<double> state(size_t{columns} * size), out(in.value.size());
  const auto unit = [&](std::span<const float> from) {
    double length = 1e-6;
    for (float v : from) length += double{v} * v;
    std::vector<double> result;
    for (float v : from) result.push_back(v / std::sqrt(length));
    return result;
  };
  for (size_t row = 0; row * columns < in.value.size(); ++row) {
    for (uint32_t channel = 0; channel < columns; ++channel) {
      const uint32_t head = channel / shape.value_dim;
      const size_t at = row * keys + head / (shape.value_heads / shape.key_heads) * size;
      const std::vector<double> q = unit(in.query.subspan(at, size)), k = unit(in.key.subspan(at, size));
      const size_t number = row * shape.value_heads + head;
      const double keep = std::exp(-std::exp(double{in.log_a[head]}) *
                                   softplus_reference(double{in.decays[number]} + in.decay_bias[head]));
      const double rate = 1 / (1 + std::exp(-double{in.rates[number]}));
      double* s = state.data() + size_t{channel} * size;
      double known = 0, sum = 0;
      for (uint32_t n = 0; n < size; ++n) known += (s[n] *= keep) * k[n];
      const double change = rate * (in.value[row * columns + channel] - known);
      for (uint32_t n = 0; n < size; ++n) sum += (s[n] += k[n] * change) * q[n];
      out[row * columns + channel] = sum / std::sqrt(static_cast<double>(size));
    }
  }
  return out;
}
