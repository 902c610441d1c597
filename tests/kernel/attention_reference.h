#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

#include "kernel/cache_layout.h"

// Attention in plain double precision, and caches packed on the host as kernel/cache_layout.h describes them.
namespace attention_reference {

// A half's bits, rounded to the nearest; what is too large for one becomes infinite.
inline uint16_t to_half(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  const uint16_t sign = static_cast<uint16_t>(bits >> 16 & 0x8000);
  if (std::isnan(value)) return sign | 0x7e00;
  const double size = std::fabs(double{value});
  if (size >= 65520) return sign | 0x7c00;
  // A half has 10 bits after the leading one, whose exponent is -14 at least.
  const int exponent = std::max(size > 0 ? std::ilogb(size) : -14, -14);
  const auto mantissa = static_cast<uint32_t>(std::nearbyint(std::ldexp(size, 10 - exponent)));
  // Adding rather than joining: a mantissa rounded up to the next power of two moves the exponent on.
  return static_cast<uint16_t>(sign | ((static_cast<uint32_t>(exponent + 14) << 10) + mantissa));
}

inline float from_half(uint16_t half) {
  const int exponent = half >> 10 & 31;
  const int mantissa = half & 1023;
  const float sign = half & 0x8000 ? -1.0f : 1.0f;
  if (exponent == 31) return mantissa ? std::numeric_limits<float>::quiet_NaN() : sign * INFINITY;
  return sign * (exponent == 0 ? std::ldexp(static_cast<float>(mantissa), -24)
                               : std::ldexp(static_cast<float>(mantissa + 1024), exponent - 25));
}

// Keys and values of one layer as the host sees them; where nothing was written they are not a number.
struct Cache {
  pumice::CacheLayout layout;
  std::vector<float> keys, values; // [sequence][kv_head][position][head_dim]

  explicit Cache(const pumice::CacheLayout& cache_layout) : layout(cache_layout) {
    const size_t size = size_t{layout.sequences} * layout.kv_heads * layout.capacity * layout.head_dim;
    keys.assign(size, std::numeric_limits<float>::quiet_NaN());
    values = keys;
  }
  size_t at(uint32_t sequence, uint32_t head, uint32_t position) const {
    return ((size_t{sequence} * layout.kv_heads + head) * layout.capacity + position) * layout.head_dim;
  }
  // What the device will hold: for f16, the nearest half.
  float stored(float value) const {
    return layout.type == pumice::CacheType::f16 ? from_half(to_half(value)) : value;
  }

  std::vector<uint8_t> packed_keys() const { return packed(keys, true); }
  std::vector<uint8_t> packed_values() const { return packed(values, false); }

private:
  std::vector<uint8_t> packed(const std::vector<float>& elements, bool tiled) const {
    const uint32_t size = layout.element_bytes(), chunk = layout.per_chunk();
    const uint32_t padded = layout.head_dim_padded();
    std::vector<uint8_t> bytes(layout.layer_bytes(), 0);
    for (uint32_t head = 0; head < layout.sequences * layout.kv_heads; ++head) {
      for (uint32_t position = 0; position < layout.capacity; ++position) {
        for (uint32_t d = 0; d < padded; ++d) {
          const size_t from = (size_t{head} * layout.capacity + position) * layout.head_dim;
          // The padding of a position that nobody wrote is as unknown as the position.
          float value = d < layout.head_dim ? elements[from + d] : std::isnan(elements[from]) ? NAN : 0.0f;
          uint64_t index = uint64_t{position} * padded + d;
          if (tiled) {
            index = position / 8 * (8 * padded) + (d / chunk * 8 + position % 8) * chunk + d % chunk;
          }
          uint8_t* to = bytes.data() + head * layout.head_bytes() + index * size;
          if (size == 2) {
            const uint16_t half = to_half(value);
            std::memcpy(to, &half, sizeof(half));
          } else {
            std::memcpy(to, &value, sizeof(value));
          }
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
};

// The columns of one row: heads * head_dim. q: the row's queries.
inline std::vector<float> attend(const Cache& cache, const Options& options, const Row& row, const float* q) {
  const uint32_t dim = cache.layout.head_dim;
  std::vector<float> result(size_t{options.heads} * dim, 0.0f);
  int64_t first = row.first;
  if (options.window > 0) first = std::max(first, int64_t{row.position} - options.window + 1);
  const int64_t last = options.length > 0 ? int64_t{options.length} - 1 : int64_t{row.position};
  for (uint32_t head = 0; head < options.heads && first <= last; ++head) {
    const uint32_t kv_head = head / (options.heads / cache.layout.kv_heads);
    std::vector<double> scores;
    for (int64_t position = first; position <= last; ++position) {
      const size_t at = cache.at(row.sequence, kv_head, static_cast<uint32_t>(position));
      double dot = 0;
      for (uint32_t d = 0; d < dim; ++d) dot += double{q[head * dim + d]} * cache.stored(cache.keys[at + d]);
      scores.push_back(dot * options.scale);
    }
    const double largest = *std::max_element(scores.begin(), scores.end());
    double total = 0;
    std::vector<double> sum(dim, 0.0);
    for (int64_t position = first; position <= last; ++position) {
      const double weight = std::exp(scores[static_cast<size_t>(position - first)] - largest);
      const size_t at = cache.at(row.sequence, kv_head, static_cast<uint32_t>(position));
      total += weight;
      for (uint32_t d = 0; d < dim; ++d) sum[d] += weight * cache.stored(cache.values[at + d]);
    }
    for (uint32_t d = 0; d < dim; ++d) result[head * dim + d] = static_cast<float>(sum[d] / total);
  }
  return result;
}

} // namespace attention_reference
