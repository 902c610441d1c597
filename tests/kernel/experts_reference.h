#pragma once

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <numeric>
#include <span>
#include <vector>

#include "kernel/elementwise_reference.h"

// A mixture of experts in 64 bits.

struct ExpertChoice {
  uint32_t expert = 0;
  double share = 0;
};

// The `used` experts of one row.
inline std::vector<ExpertChoice> route_reference(std::span<const float> logits, uint32_t used,
                                                 bool normalise) {
  std::vector<double> clean(logits.begin(), logits.end());
  for (double& v : clean)
    v = std::isnan(v) ? -double{FLT_MAX} : std::clamp(v, -double{FLT_MAX}, double{FLT_MAX});
  std::vector<uint32_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0u);
  std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) { return clean[a] > clean[b]; });
  std::vector<ExpertChoice> choices;
  double total = 0;
  for (uint32_t i = 0; i < order.size(); ++i) {
    const double part = std::exp(clean[order[i]] - clean[order[0]]);
    if (i < used || !normalise) total += part;
    if (i < used) choices.push_back({order[i], part});
  }
  for (ExpertChoice& choice : choices) choice.share /= total;
  return choices;
}

// A matrix [rows, columns] times x.
inline std::vector<double> product_reference(const std::vector<float>& matrix, std::span<const double> x) {
  std::vector<double> out(matrix.size() / x.size());
  for (size_t row = 0; row < out.size(); ++row) {
    for (size_t i = 0; i < x.size(); ++i) out[row] += double{matrix[row * x.size() + i]} * x[i];
  }
  return out;
}

struct ExpertReference {
  std::vector<float> gate, up; // [ff, hidden]
  std::vector<float> down;     // [hidden, ff]
};

// One row's result.
inline std::vector<double> experts_reference(std::span<const float> x,
                                             const std::vector<ExpertReference>& experts,
                                             const std::vector<ExpertChoice>& choices,
                                             pumice::Activation activation) {
  const std::vector<double> row(x.begin(), x.end());
  std::vector<double> out;
  for (const ExpertChoice& choice : choices) {
    const ExpertReference& expert = experts[choice.expert];
    std::vector<double> inner = product_reference(expert.gate, row);
    const std::vector<double> up = product_reference(expert.up, row);
    for (size_t i = 0; i < inner.size(); ++i) inner[i] = activation_reference(activation, inner[i]) * up[i];
    const std::vector<double> result = product_reference(expert.down, inner);
    out.resize(result.size());
    for (size_t i = 0; i < out.size(); ++i) out[i] += choice.share * result[i];
  }
  return out;
}
