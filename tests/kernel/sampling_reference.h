#pragma once

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kernel/sampling/filter_order.h"
#include "kernel/sampling/sampling.h"

// Sampling as kernel/sampling/sampling.h states it, by sorting the whole vocabulary.
struct ReferenceChoice {
  uint32_t token = 0;
  std::vector<uint32_t> allowed; // what could have been drawn
};

inline float reference_clean(float logit) {
  return std::isnan(logit) ? -INFINITY : std::min(logit, FLT_MAX);
}

// Of each token that would make a repetition of the latest tokens longer, the length of the longest one.
inline std::map<uint32_t, uint32_t> reference_repetitions(const pumice::SamplingParams& params,
                                                          std::span<const uint32_t> history) {
  std::map<uint32_t, uint32_t> longest;
  const auto window = history.last(std::min<size_t>(params.dry_penalty_last_n, history.size()));
  for (size_t next = 1; next < window.size(); ++next) {
    uint32_t length = 0;
    while (length < next && length < pumice::SAMPLING_MATCH) {
      const uint32_t token = window[window.size() - 1 - length];
      if (window[next - 1 - length] != token || std::ranges::count(params.dry_breakers, token)) break;
      ++length;
    }
    if (length >= params.dry_allowed_length) longest[window[next]] = std::max(longest[window[next]], length);
  }
  return longest;
}

// In place: biases, then the penalties of each distinct token of the window, then those of repetitions.
inline void reference_penalise(std::span<float> logits, const pumice::SamplingParams& params,
                               std::span<const uint32_t> history) {
  for (const pumice::LogitBias& each : params.logit_biases) {
    if (each.token >= logits.size()) continue;
    float& logit = logits[each.token];
    logit = each.bias == -INFINITY ? -INFINITY : logit + each.bias;
  }
  const size_t window = std::min<size_t>(params.repeat_window, history.size());
  std::map<uint32_t, uint32_t> counts;
  for (uint32_t id : history.last(window)) ++counts[id];
  const float inverse = 1.0f / params.repeat_penalty;
  for (const auto& [id, count] : counts) {
    if (id >= logits.size()) continue;
    logits[id] *= logits[id] > 0 ? inverse : params.repeat_penalty;
    logits[id] -= static_cast<float>(count) * params.frequency_penalty + params.presence_penalty;
  }
  if (params.dry_multiplier <= 0) return;
  for (const auto& [id, length] : reference_repetitions(params, history)) {
    if (id >= logits.size()) continue;
    const float exponent =
        static_cast<float>(length - params.dry_allowed_length) * std::log2(params.dry_base);
    logits[id] -= params.dry_multiplier * std::exp2(std::min(exponent, 100.0f));
  }
}

// log-softmax, 64-bit; NaN is no token's logit and infinity the largest float.
inline std::vector<double> reference_log_softmax(std::span<const float> logits) {
  float top = -INFINITY;
  for (float logit : logits) top = std::max(top, reference_clean(logit));
  double total = 0;
  for (float logit : logits) {
    if (reference_clean(logit) > -INFINITY) total += std::exp(double{reference_clean(logit)} - top);
  }
  std::vector<double> result;
  for (float logit : logits) {
    const float clean = reference_clean(logit);
    result.push_back(clean > -INFINITY ? double{clean} - top - std::log(total) : -INFINITY);
  }
  return result;
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

// What typical sampling leaves of these logits, largest first. Probabilities are those of a temperature.
inline std::vector<float> reference_typical(std::span<const float> sorted, double share, double heat) {
  const auto weight = [&](float logit) { return std::exp((double{logit} - sorted[0]) / heat); };
  double total = 0, mean = 0;
  for (float logit : sorted) total += weight(logit);
  for (float logit : sorted) mean += weight(logit) / total * (double{logit} - sorted[0]);
  // -log(p) - entropy is the mean logit less the logit, over the temperature.
  const auto distance = [&](float logit) { return std::abs(mean - (double{logit} - sorted[0])); };
  std::vector<float> order(sorted.begin(), sorted.end());
  std::stable_sort(order.begin(), order.end(), [&](float a, float b) { return distance(a) < distance(b); });
  double mass = 0;
  size_t n = 0;
  while (n < order.size() && mass < share * total) mass += weight(order[n++]);
  // In the device's precision, so that what lies as far on the other side of the mean stays too.
  const double limit = distance(order[std::max<size_t>(n, 1) - 1]) + 1e-6;
  std::vector<float> left;
  for (float logit : sorted) {
    if (distance(logit) <= limit) left.push_back(logit);
  }
  return left;
}

// The least logit of those that are at most so many standard deviations below the largest.
inline double reference_sigma_limit(std::span<const float> sorted, double sigmas) {
  double mean = 0, squares = 0;
  for (float logit : sorted) mean += double{logit} / static_cast<double>(sorted.size());
  for (float logit : sorted) squares += (logit - mean) * (logit - mean);
  return sorted[0] - sigmas * std::sqrt(squares / static_cast<double>(sorted.size()));
}

// XTC's least probable of the tokens that are at least as probable as the threshold.
inline float reference_ceiling(std::span<const float> sorted, double threshold, double heat) {
  double total = 0;
  for (float logit : sorted) total += std::exp((double{logit} - sorted[0]) / heat);
  float ceiling = sorted[0];
  for (float logit : sorted) {
    if (std::exp((double{logit} - sorted[0]) / heat) >= threshold * total) ceiling = logit;
  }
  return ceiling;
}

// The least logit that top-p leaves.
inline float reference_top_p(std::span<const float> sorted, double share, double heat) {
  double total = 0, mass = 0;
  for (float logit : sorted) total += std::exp((double{logit} - sorted[0]) / heat);
  size_t n = 0;
  do {
    mass += std::exp((double{sorted[n++]} - sorted[0]) / heat);
  } while (mass < share * total && n < sorted.size());
  return sorted[n - 1];
}

inline float reference_temperature(std::span<const float> sorted, const pumice::SamplingParams& params) {
  double total = 0, entropy = 0;
  for (float logit : sorted) total += std::exp(double{logit} - sorted[0]);
  for (float logit : sorted) {
    const double p = std::exp(double{logit} - sorted[0]) / total;
    if (p > 0) entropy -= p * std::log(p);
  }
  if (sorted.size() < 2) return params.temperature;
  const double share = entropy / std::log(static_cast<double>(sorted.size()));
  const double low = std::max(params.temperature - params.dynatemp_range, 0.0f),
               high = params.temperature + params.dynatemp_range;
  return std::max(static_cast<float>(low + (high - low) * std::pow(share, params.dynatemp_exponent)), 1e-3f);
}

// Mirostat's mu after a token, or without one the least logit that mu leaves.
inline double reference_mirostat(std::span<const float> logits, const pumice::SamplingParams& params,
                                 double mu, std::optional<uint32_t> token) {
  double top = -INFINITY, total = 0, kept = 0;
  const auto weight = [&](float logit) {
    return std::exp((double{reference_clean(logit)} - top) / params.temperature);
  };
  for (float logit : logits) top = std::max(top, double{reference_clean(logit)});
  for (float logit : logits) total += weight(logit);
  const double limit = std::min(top, top + params.temperature * (std::log(total) - mu * std::log(2.0)));
  if (!token) return limit;
  for (float logit : logits) {
    if (reference_clean(logit) >= limit) kept += weight(logit);
  }
  return mu - params.mirostat_eta * (std::log2(kept / weight(logits[*token])) - params.mirostat_tau);
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
  if (params.mirostat > 0) {
    ReferenceChoice choice;
    double best = -INFINITY;
    const double mu = 2.0 * params.mirostat_tau, limit = reference_mirostat(logits, params, mu, {});
    for (uint32_t id = 0; id < logits.size(); ++id) {
      const float logit = reference_clean(logits[id]);
      if (logit == -INFINITY || logit < limit) continue;
      choice.allowed.push_back(id);
      const double score =
          (double{logit} - sorted[0]) / params.temperature + reference_gumbel(params.seed, position, id);
      if (score > best) best = score, choice.token = id;
    }
    return choice;
  }
  const uint32_t draw = reference_bits(static_cast<uint32_t>(params.seed),
                                       static_cast<uint32_t>(params.seed >> 32), position, UINT32_MAX);
  const bool exclude = params.xtc_threshold <= 0.5f && (draw + 0.5) / 4294967296.0 <= params.xtc_probability;
  const uint32_t order =
      params.order ? params.order & pumice::order_filters : uint32_t{pumice::usual_filter_order};
  float temperature = 1; // until it is applied
  const auto keep_from = [&](double least) {
    std::erase_if(sorted, [&](float logit) { return logit < least; });
  };
  const auto keep_most = [&](uint32_t count) {
    if (count && count < sorted.size()) keep_from(sorted[count - 1]);
  };
  for (uint32_t rest = order; rest != 0; rest >>= 4) {
    switch (rest & 15) {
    case pumice::SAMPLING_SIGMA:
      if (params.top_n_sigma > 0) keep_from(reference_sigma_limit(sorted, params.top_n_sigma));
      break;
    case pumice::SAMPLING_TOP_K:
      keep_most(params.top_k);
      break;
    case pumice::SAMPLING_TYPICAL_P:
      if (params.typical_p >= 1) break;
      keep_most(pumice::SAMPLING_TYPICAL);
      sorted = reference_typical(sorted, params.typical_p, temperature);
      break;
    case pumice::SAMPLING_TOP_P:
      if (params.top_p < 1) keep_from(reference_top_p(sorted, params.top_p, temperature));
      break;
    case pumice::SAMPLING_MIN_P:
      if (params.min_p > 0) keep_from(sorted[0] + std::log(params.min_p) * temperature);
      break;
    case pumice::SAMPLING_XTC:
      if (exclude) {
        const float most = reference_ceiling(sorted, params.xtc_threshold, temperature);
        std::erase_if(sorted, [&](float logit) { return logit > most; });
      }
      break;
    default:
      temperature = params.dynatemp_range > 0 ? reference_temperature(sorted, params) : params.temperature;
    }
  }

  ReferenceChoice choice;
  double best = -INFINITY;
  for (uint32_t id = 0; id < logits.size(); ++id) {
    const float logit = reference_clean(logits[id]);
    if (logit == -INFINITY || !std::binary_search(sorted.begin(), sorted.end(), logit, std::greater<>()))
      continue;
    choice.allowed.push_back(id);
    const double score =
        (double{logit} - sorted[0]) / temperature + reference_gumbel(params.seed, position, id);
    if (score <= best) continue;
    best = score;
    choice.token = id;
  }
  return choice;
}

// What the filters are tried with, one by one and together.
inline std::vector<pumice::SamplingParams> reference_filters() {
  pumice::SamplingParams drawing;
  drawing.temperature = 0.8f;
  std::vector<pumice::SamplingParams> all(28, drawing);
  all[1].top_k = 40;
  all[2].top_p = 0.9f;
  all[3].min_p = 0.05f;
  all[4].top_k = 40, all[4].top_p = 0.95f, all[4].min_p = 0.05f;
  all[5].top_k = 300, all[5].top_p = 0.5f, all[5].temperature = 2.0f;
  all[6].top_p = 0.999f, all[6].temperature = 1.5f;
  all[7].top_p = 0.0f;
  all[8].top_k = 2, all[8].min_p = 1e-4f, all[8].temperature = 5.0f;
  all[9].top_p = 0.7f, all[9].min_p = 0.02f;
  all[10].top_k = 1u << 31, all[10].top_p = 0.9f, all[10].temperature = 0.3f;
  all[11].typical_p = 0.9f;
  all[12].top_k = 40, all[12].typical_p = 0.5f;
  all[13].top_k = 100, all[13].typical_p = 0.3f, all[13].top_p = 0.8f, all[13].min_p = 0.1f;
  all[14].typical_p = 0.2f, all[14].temperature = 0.05f; // the largest logits may be far from typical
  all[15].typical_p = 0.0f;
  all[16].typical_p = 0.95f, all[16].top_p = 0.9f, all[16].temperature = 3.0f;
  all[17].top_n_sigma = 1.0f;
  all[18].top_n_sigma = 0.5f, all[18].top_p = 0.7f, all[18].temperature = 3.0f;
  all[19].top_n_sigma = 2.0f, all[19].top_k = 40, all[19].min_p = 0.05f;
  all[20].xtc_probability = 1.0f, all[20].xtc_threshold = 0.02f;
  all[21].xtc_probability = 0.5f, all[21].min_p = 0.05f, all[21].temperature = 1.5f;
  all[22].xtc_probability = 1.0f, all[22].typical_p = 0.9f, all[22].top_p = 0.95f;
  all[23].xtc_probability = 1.0f, all[23].xtc_threshold = 0.6f; // switches it off
  all[24].dynatemp_range = 0.7f;
  all[25].dynatemp_range = 3.0f, all[25].dynatemp_exponent = 0.5f, all[25].top_k = 30, all[25].min_p = 0.01f;
  all[26].mirostat = 2, all[26].mirostat_tau = 2.0f, all[26].temperature = 1.3f;
  all[27].mirostat = 2, all[27].mirostat_tau = 0.1f; // leaves the largest alone
  // In other orders, and with some left out.
  pumice::SamplingParams each = drawing;
  each.temperature = 1.6f, each.top_k = 60, each.top_p = 0.8f, each.min_p = 0.02f;
  each.xtc_probability = 1.0f, each.xtc_threshold = 0.05f;
  for (const char* order : {"temperature;top_k;top_p;min_p", "top_p;top_k;temperature", "top_k;temperature",
                            "xtc;top_k;top_p;temperature", "temperature;xtc;min_p", "min_p;temperature;top_p",
                            "temperature;typ_p", "xtc;min_p;top_n_sigma;typ_p", "top_p;temperature;xtc",
                            // All of them; those with typ_p before top_k have no top_k.
                            "top_n_sigma;typ_p;top_p;min_p;xtc;top_k;temperature",
                            // Those that end in a colon are cold: next to what is gone, nothing weighs.
                            "xtc;temperature;typ_p:", "xtc;temperature;top_p:", "typ_p;temperature;top_p:"}) {
    pumice::SamplingParams one = each;
    std::string names = order;
    if (names.ends_with(':')) names.pop_back(), one.temperature = 0.02f;
    one.order = *pumice::filter_order(names);
    if (names.find("typ_p") != names.npos) one.typical_p = 0.7f;
    if (names.find("sigma") != names.npos) one.top_n_sigma = 2.0f;
    if (names.find("top_k") != names.npos && names.find("typ_p") < names.find("top_k")) one.top_k = 0;
    all.push_back(one);
  }
  return all;
}

// A limit may fall on the other side of a logit by rounding, but not by more than this lets through.
inline void reference_widen(pumice::SamplingParams& params) {
  params.top_p += 1e-5f;
  params.min_p *= 1.0f - 1e-5f;
  if (params.typical_p > 0.0f) params.typical_p += 1e-5f;
  params.top_n_sigma *= 1.0f + 1e-5f;
  if (params.xtc_threshold <= 0.5f) params.xtc_threshold *= 1.0f + 1e-5f;
  params.mirostat_tau += 1e-5f;
}
