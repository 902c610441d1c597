#pragma once

#include <cmath>
#include <span>
#include <vector>

#include "kernel/cache_layout.h"
#include "kernel/position.h"

// Rotates the first dimensions of one head (Su et al. 2021), in 64 bits.
inline std::vector<double> rotary_reference(std::span<const float> head, pumice::RotaryPairs pairs,
                                            std::span<const double> frequencies, uint32_t position) {
  std::vector<double> out(head.begin(), head.end());
  if (pairs == pumice::RotaryPairs::none) return out;
  const size_t half = frequencies.size();
  for (size_t i = 0; i < half; ++i) {
    const bool split = pairs == pumice::RotaryPairs::half_split;
    const size_t a = split ? i : 2 * i, b = split ? i + half : 2 * i + 1;
    const double c = std::cos(position * frequencies[i]), s = std::sin(position * frequencies[i]);
    out[a] = head[a] * c - head[b] * s;
    out[b] = head[b] * c + head[a] * s;
  }
  return out;
}

// Where one number of a key or a value is, in elements, straight from the text in kernel/cache_layout.h.
inline size_t key_index(const pumice::CacheLayout& layout, size_t sequence, size_t head, size_t position,
                        size_t dimension) {
  const size_t chunk = layout.per_chunk(), chunks = layout.head_dim_padded() / chunk;
  size_t at = sequence * layout.kv_heads + head;
  at = at * (layout.capacity / 8) + position / 8;
  at = at * chunks + dimension / chunk;
  at = at * 8 + position % 8;
  return at * chunk + dimension % chunk;
}

inline size_t value_index(const pumice::CacheLayout& layout, size_t sequence, size_t head, size_t position,
                          size_t dimension) {
  return ((sequence * layout.kv_heads + head) * layout.capacity + position) * layout.head_dim_padded() +
         dimension;
}
