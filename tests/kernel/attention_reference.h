#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "kernel/cache_reference.h"

// Attention in plain double precision.
namespace attention_reference {

using cache_reference::Place;
using cache_reference::Side;

// Keys and values of one layer as the host sees them; where nothing was written they are not a number.
struct Cache {
  pumice::CacheLayout layout;
  uint32_t positions = 0;          // of a sequence; a ring has lost some of them
  std::vector<float> keys, values; // [sequence][kv_head][position][head_dim]

  Cache(const pumice::CacheLayout& cache_layout, uint32_t all_positions)
      : layout(cache_layout), positions(all_positions) {
    const size_t size = size_t{layout.sequences} * layout.kv_heads * positions * layout.head_dim;
    keys.assign(size, std::numeric_limits<float>::quiet_NaN());
    values = keys;
  }
  size_t at(uint32_t sequence, uint32_t head, uint32_t position) const {
    return ((size_t{sequence} * layout.kv_heads + head) * positions + position) * layout.head_dim;
  }
  std::vector<float> key(uint32_t sequence, uint32_t head, uint32_t position) const {
    return cache_reference::kept(layout,
                                 std::span(keys).subspan(at(sequence, head, position), layout.head_dim));
  }
  std::vector<float> value(uint32_t sequence, uint32_t head, uint32_t position) const {
    return cache_reference::kept(layout,
                                 std::span(values).subspan(at(sequence, head, position), layout.head_dim));
  }

  std::vector<uint8_t> packed_keys() const { return packed(keys, Side::keys); }
  std::vector<uint8_t> packed_values() const { return packed(values, Side::values); }

private:
  std::vector<uint8_t> packed(const std::vector<float>& elements, Side side) const {
    std::vector<uint8_t> bytes = cache_reference::unwritten(layout);
    for (uint32_t sequence = 0; sequence < layout.sequences; ++sequence) {
      for (uint32_t head = 0; head < layout.kv_heads; ++head) {
        for (uint32_t position = 0; position < positions; ++position) {
          const auto from = std::span(elements).subspan(at(sequence, head, position), layout.head_dim);
          if (std::isnan(from[0])) continue;
          cache_reference::store(layout, side, {sequence, head, position}, from, bytes);
        }
      }
    }
    return bytes;
  }
};

struct Row {
  uint32_t token = 0, position = 0, sequence = 0, first = 0;
};

struct Options {
  uint32_t heads = 1;
  double scale = 1;
  uint32_t window = 0;
  uint32_t length = 0;
  double soft_cap = 0;
};

struct Attended {
  std::vector<float> result;  // [heads * head_dim]
  std::vector<float> weights; // [heads * positions]
};

// One row. q: its queries.
inline Attended attend(const Cache& cache, const Options& options, const Row& row, const float* q) {
  const uint32_t dim = cache.layout.head_dim;
  Attended attended;
  attended.result.assign(size_t{options.heads} * dim, 0.0f);
  attended.weights.assign(size_t{options.heads} * cache.positions, 0.0f);
  int64_t first = row.first;
  if (options.window > 0) first = std::max(first, int64_t{row.position} - options.window + 1);
  const int64_t last = options.length > 0 ? int64_t{options.length} - 1 : int64_t{row.position};
  for (uint32_t head = 0; head < options.heads && first <= last; ++head) {
    const uint32_t kv_head = head / (options.heads / cache.layout.kv_heads);
    std::vector<double> scores;
    for (int64_t position = first; position <= last; ++position) {
      const std::vector<float> key = cache.key(row.sequence, kv_head, static_cast<uint32_t>(position));
      double dot = 0;
      for (uint32_t d = 0; d < dim; ++d) dot += double{q[head * dim + d]} * key[d];
      double score = dot * options.scale;
      if (options.soft_cap > 0) score = options.soft_cap * std::tanh(score / options.soft_cap);
      scores.push_back(score);
    }
    const double largest = *std::max_element(scores.begin(), scores.end());
    double total = 0;
    for (double& score : scores) total += score = std::exp(score - largest);
    std::vector<double> sum(dim, 0.0);
    for (int64_t position = first; position <= last; ++position) {
      const double weight = scores[static_cast<size_t>(position - first)] / total;
      const std::vector<float> value = cache.value(row.sequence, kv_head, static_cast<uint32_t>(position));
      for (uint32_t d = 0; d < dim; ++d) sum[d] += weight * value[d];
      attended.weights[size_t{head} * cache.positions + static_cast<size_t>(position)] =
          static_cast<float>(weight);
    }
    for (uint32_t d = 0; d < dim; ++d) attended.result[head * dim + d] = static_cast<float>(sum[d]);
  }
  return attended;
}

} // namespace attention_reference
