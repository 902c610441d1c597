#pragma once

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <numeric>
#include <span>
#include <vector>

#include "kernel/elementwise_reference.h"
#include "kernel/experts/experts.h"

// A mixture of experts in 64 bits.

struct ExpertChoice {
  uint32_t expert = 0;
  double share = 0;
};

// The numbers from the largest to the smallest; equal ones in their order.
inline std::vector<uint32_t> falling(const std::vector<double>& values) {
  std::vector<uint32_t> order(values.size());
  std::iota(order.begin(), order.end(), 0u);
  std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) { return values[a] > values[b]; });
  return order;
}

// The scores of one row: of NaN 0.
inline std::vector<double> expert_scores(std::span<const float> logits, pumice::ExpertScore score) {
  std::vector<double> scores(logits.begin(), logits.end());
  for (double& v : scores)
    v = std::isnan(v) ? -double{FLT_MAX} : std::clamp(v, -double{FLT_MAX}, double{FLT_MAX});
  const double largest = *std::max_element(scores.begin(), scores.end());
  double total = 0;
  for (double& v : scores) {
    v = score == pumice::ExpertScore::sigmoid ? 1 / (1 + std::exp(-v)) : std::exp(v - largest);
    total += v;
  }
  for (double& v : scores) v /= score == pumice::ExpertScore::sigmoid ? 1 : total;
  return scores;
}

// SparseMixer's share of a choice: its softmax among those that are not before it and nearly as good.
inline double sparse_share(std::span<const double> ranks, const std::vector<uint32_t>& order, size_t place,
                           double jitter) {
  const double best = ranks[order[place]];
  double sum = 0;
  for (size_t i = place; i < order.size(); ++i) {
    const double own = ranks[order[i]];
    if (best - own <= 2 * jitter * std::max(std::abs(own), best)) sum += std::exp(own - best);
  }
  return 1 / sum;
}

// What a group's experts are worth to it.
inline double group_rank(std::vector<double> ranks, uint32_t best) {
  std::sort(ranks.rbegin(), ranks.rend());
  return std::accumulate(ranks.begin(), ranks.begin() + std::min<size_t>(best, ranks.size()), 0.0);
}

// The chosen experts of one row. `bias`, `scales`: as many as logits, if the routing has them.
inline std::vector<ExpertChoice> route_reference(std::span<const float> logits,
                                                 const pumice::ExpertRouting& routing,
                                                 std::span<const float> bias = {},
                                                 std::span<const float> scales = {}) {
  const std::vector<double> scores = expert_scores(logits, routing.score);
  std::vector<double> ranks = scores;
  const bool by_score = routing.biased || routing.groups > 1;
  for (size_t i = 0; i < ranks.size(); ++i) {
    if (by_score && routing.biased) ranks[i] += bias[i];
    if (!by_score)
      ranks[i] = std::isnan(logits[i]) ? -double{FLT_MAX} : std::clamp(logits[i], -FLT_MAX, FLT_MAX);
  }
  const size_t size = ranks.size() / routing.groups;
  std::vector<double> groups;
  for (uint32_t g = 0; g < routing.groups; ++g) {
    const auto begin = ranks.begin() + static_cast<ptrdiff_t>(g * size);
    groups.push_back(group_rank({begin, begin + static_cast<ptrdiff_t>(size)}, routing.group_best));
  }
  std::vector<bool> open(routing.groups);
  for (uint32_t i = 0; i < routing.used_groups; ++i) open[falling(groups)[i]] = true;
  std::vector<ExpertChoice> choices;
  double total = 0;
  for (uint32_t expert : falling(ranks)) {
    if (!open[expert / size] || choices.size() == routing.used) continue;
    double share = scores[expert];
    if (routing.score == pumice::ExpertScore::sparse_mixer)
      share = sparse_share(ranks, falling(ranks), choices.size(), routing.jitter);
    choices.push_back({expert, share});
    total += share;
  }
  for (ExpertChoice& choice : choices) {
    choice.share *= routing.scale / (routing.normalise ? total : 1);
    if (routing.scaled) choice.share *= scales[choice.expert];
  }
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
  std::vector<float> gate, up;                      // [ff, hidden]; without a gate the up is it too
  std::vector<float> down;                          // [hidden, ff]
  std::vector<float> gate_bias, up_bias, down_bias; // none, or one for each row
};

inline double gate_reference(const pumice::ExpertActivation& activation, double gate, double up) {
  if (activation.limit == 0) return activation_reference(activation.kind, gate) * up;
  const double limit = activation.limit;
  gate = std::min(gate, limit);
  return gate / (1 + std::exp(-1.702 * gate)) * (std::clamp(up, -limit, limit) + 1);
}

inline void add_bias(std::vector<double>& values, const std::vector<float>& bias) {
  for (size_t i = 0; i < bias.size(); ++i) values[i] += bias[i];
}

// One row's result.
inline std::vector<double> experts_reference(std::span<const float> x,
                                             const std::vector<ExpertReference>& experts,
                                             const std::vector<ExpertChoice>& choices,
                                             const pumice::ExpertActivation& activation,
                                             bool scaled_inputs = false) {
  std::vector<double> out;
  for (const ExpertChoice& choice : choices) {
    const ExpertReference& expert = experts[choice.expert];
    std::vector<double> row(x.begin(), x.end());
    if (scaled_inputs) {
      for (double& v : row) v *= choice.share;
    }
    std::vector<double> inner = product_reference(expert.gate, row);
    std::vector<double> up = product_reference(expert.up, row);
    add_bias(inner, expert.gate_bias);
    add_bias(up, expert.up_bias);
    for (size_t i = 0; i < inner.size(); ++i) inner[i] = gate_reference(activation, inner[i], up[i]);
    std::vector<double> result = product_reference(expert.down, inner);
    add_bias(result, expert.down_bias);
    out.resize(result.size());
    for (size_t i = 0; i < out.size(); ++i) out[i] += (scaled_inputs ? 1 : choice.share) * result[i];
  }
  return out;
}
