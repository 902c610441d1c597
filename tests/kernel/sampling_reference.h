#pragma once

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <cstdint>
#include <functional>
#include <set>
#include <span>
#include <vector>

#include "kernel/sampling.h"

// Sampling as kernel/sampling.h states it, by sorting the whole vocabulary.
struct ReferenceChoice {
  uint32_t token = 0;
  std::vector<uint32_t> allowed; // what could have been drawn
};

inline float reference_clean(float logit) {
  return std::isnan(logit) ? -INFINITY : std::min(logit, FLT_MAX);
}

// In place: each distinct token of the window once.
inline void reference_penalise(std::span<float> logits, const pumice::SamplingParams& params,
                               std::span<const uint32_t> history) {
  const size_t window = std::min<size_t>(params.repeat_window, history.size());
  const std::set<uint32_t> repeated(history.end() - static_cast<ptrdiff_t>(window), history.end());
  const float inverse = 1.0f / params.repeat_penalty;
  for (uint32_t id : repeated) {
    if (id < logits.size()) logits[id] *= logits[id] > 0 ? inverse : params.repeat_penalty;
  }
}

inline uint32_t reference_bits(uint32_t x, uint32_t y, uint32_t z, uint32_t w) {
  for (uint32_t* v : {&x, &y, &z, &w}) *v = *v * 1664525u + 1013904223u;
  x += y * w, y += z * x, z += x * y, w += y * z;
  for (uint32_t* v : {&x, &y, &z, &w}) *v ^= *v >> 16;
  x += y * w, y += z * x, z += x * y, w += y * z;
  return x;
}

inline double reference_gumbel(uint64_t seed, uint32_t position, uint32_t id) {
  const uint32_t bits =
      reference_bits(static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32), position, id);
  const double c = std::min((bits + 0.5) / 4294967296.0, 1.0 - 1.0 / 16777216.0);
  return -std::log(-std::log1p(-c));
}

// `position` is the new token's.
inline ReferenceChoice reference_sample(std::span<const float> logits, const pumice::SamplingParams& params,
                                        uint32_t position) {
  std::vector<float> sorted;
  uint32_t argmax = 0;
  for (uint32_t id = 0; id < logits.size(); ++id) {
    const float logit = reference_clean(logits[id]);
    if (logit > reference_clean(logits[argmax])) argmax = id;
    if (logit > -INFINITY) sorted.push_back(logit);
  }
  if (params.temperature <= 0 || sorted.empty()) return {argmax, {argmax}};

  std::sort(sorted.begin(), sorted.end(), std::greater<>());
  const float top = sorted.front();
  float limit = sorted.back();
  if (params.top_k > 0 && params.top_k < sorted.size()) limit = sorted[params.top_k - 1];
  if (params.top_p < 1) {
    double total = 0, mass = 0;
    for (float logit : sorted) total += logit >= limit ? std::exp(double{logit} - top) : 0.0;
    size_t n = 0;
    do {
      mass += std::exp(double{sorted[n++]} - top);
    } while (mass < double{params.top_p} * total && n < sorted.size() && sorted[n] >= limit);
    limit = std::max(limit, sorted[n - 1]);
  }
  if (params.min_p > 0) limit = std::max(limit, top + std::log(params.min_p));

  ReferenceChoice choice;
  double best = -INFINITY;
  for (uint32_t id = 0; id < logits.size(); ++id) {
    const float logit = reference_clean(logits[id]);
    if (logit == -INFINITY || logit < limit) continue;
    choice.allowed.push_back(id);
    const double score =
        (double{logit} - top) / params.temperature + reference_gumbel(params.seed, position, id);
    if (score <= best) continue;
    best = score;
    choice.token = id;
  }
  return choice;
}
