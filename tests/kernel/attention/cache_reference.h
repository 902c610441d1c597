#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>
#include <vector>

#include "kernel/cache_layout.h"

// One layer's keys or values as bytes, straight from the text in kernel/cache_layout.h.
namespace cache_reference {

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

enum class Side { keys, values };

inline pumice::CacheType type_of(const pumice::CacheLayout& layout, Side side) {
  return side == Side::keys ? key_type(layout.type) : value_type(layout.type);
}

// One head's place at one position.
struct Place {
  size_t sequence = 0, head = 0, position = 0;
};

// Of eight positions and 32 dimensions.
inline size_t scaled_block_bytes(pumice::CacheType type) {
  return 16 + (type == pumice::CacheType::q8_0 ? 256 : 128);
}

// Where one dimension is, in bytes. Of q4_0, dimensions d and d + 16 have one byte.
inline size_t element_offset(const pumice::CacheLayout& layout, Side side, const Place& place, size_t d) {
  const size_t padded = layout.head_dim_padded(), slot = place.position % layout.capacity;
  const size_t head = place.sequence * layout.kv_heads + place.head;
  const pumice::CacheType type = type_of(layout, side);
  const size_t element = type == pumice::CacheType::f32 ? 4 : 2, chunk = 16 / element;
  if (is_scaled(type)) {
    const size_t block = scaled_block_bytes(type), blocks = padded / 32;
    const size_t tile = (head * (layout.capacity / 8) + slot / 8) * blocks * block;
    const bool q8_0 = type == pumice::CacheType::q8_0;
    const size_t byte = q8_0 ? d : d / 32 * 16 + d % 16, of_position = q8_0 ? padded : padded / 2;
    if (side == Side::values) return tile + blocks * 16 + slot % 8 * of_position + byte;
    return tile + d / 32 * block + 16 + ((q8_0 ? d % 32 / 16 * 8 : 0) + slot % 8) * 16 + d % 16;
  }
  if (side == Side::values) return ((head * layout.capacity + slot) * padded + d) * element;
  const size_t tile = head * (layout.capacity / 8) + slot / 8;
  return (((tile * (padded / chunk) + d / chunk) * 8 + slot % 8) * chunk + d % chunk) * element;
}

// q8_0, q4_0: where the scale of 32 dimensions is, in bytes.
inline size_t scale_offset(const pumice::CacheLayout& layout, Side side, const Place& place, size_t block) {
  const size_t blocks = layout.head_dim_padded() / 32, slot = place.position % layout.capacity;
  const size_t head = place.sequence * layout.kv_heads + place.head;
  const size_t bytes = scaled_block_bytes(type_of(layout, side));
  const size_t tile = (head * (layout.capacity / 8) + slot / 8) * blocks * bytes;
  return tile + block * (side == Side::keys ? bytes : 16) + slot % 8 * 2;
}

// The scale that 32 numbers are kept with.
inline float block_scale(pumice::CacheType type, std::span<const float> values, size_t block) {
  float most = 0, least = 0;
  for (size_t d = block * 32; d < std::min(values.size(), block * 32 + 32); ++d) {
    most = std::max(most, values[d]);
    least = std::min(least, values[d]);
  }
  const float farthest = most > -least ? most : least;
  const float scale = type == pumice::CacheType::q8_0 ? std::fabs(farthest) / 127 : farthest / -8;
  return from_half(to_half(std::clamp(scale, -65504.0f, 65504.0f)));
}

inline int8_t quantise(pumice::CacheType type, float value, float scale) {
  const bool q8_0 = type == pumice::CacheType::q8_0;
  const float least = q8_0 ? -127 : -8, most = q8_0 ? 127 : 7;
  return scale != 0 ? static_cast<int8_t>(std::clamp(std::nearbyint(value / scale), least, most)) : 0;
}

// The number that a byte has of dimension d.
inline int8_t number_of(pumice::CacheType type, uint8_t byte, size_t d) {
  if (type == pumice::CacheType::q8_0) return static_cast<int8_t>(byte);
  return static_cast<int8_t>((d % 32 < 16 ? byte & 15 : byte >> 4) - 8);
}

// Puts one head of one position into the bytes; the padding becomes zeros.
inline void store(const pumice::CacheLayout& layout, Side side, const Place& place,
                  std::span<const float> values, std::vector<uint8_t>& bytes) {
  const pumice::CacheType type = type_of(layout, side);
  for (size_t d = 0; d < layout.head_dim_padded(); ++d) {
    const float value = d < values.size() ? values[d] : 0.0f;
    uint8_t* to = bytes.data() + element_offset(layout, side, place, d);
    if (type == pumice::CacheType::f32) {
      std::memcpy(to, &value, sizeof(value));
    } else if (type == pumice::CacheType::f16) {
      const uint16_t half = to_half(value);
      std::memcpy(to, &half, sizeof(half));
    } else {
      const float scale = block_scale(type, values, d / 32);
      const uint16_t half = to_half(scale);
      const int number = quantise(type, value, scale);
      if (type == pumice::CacheType::q8_0)
        *to = static_cast<uint8_t>(number);
      else if (d % 32 < 16)
        *to = static_cast<uint8_t>((*to & 0xf0) | (number + 8));
      else
        *to = static_cast<uint8_t>((*to & 15) | (number + 8) << 4);
      std::memcpy(bytes.data() + scale_offset(layout, side, place, d / 32), &half, sizeof(half));
    }
  }
}

// What the cache holds of values that were stored.
inline std::vector<float> kept(const pumice::CacheLayout& layout, Side side, std::span<const float> values) {
  std::vector<float> result(values.begin(), values.end());
  for (size_t d = 0; d < values.size(); ++d) {
    const pumice::CacheType type = type_of(layout, side);
    if (type == pumice::CacheType::f16) result[d] = from_half(to_half(values[d]));
    if (!is_scaled(type)) continue;
    const float scale = block_scale(type, values, d / 32);
    result[d] = scale * quantise(type, values[d], scale);
  }
  return result;
}

// A cache that nobody has written: not a number wherever a kernel may look.
inline std::vector<uint8_t> unwritten(const pumice::CacheLayout& layout, Side side) {
  std::vector<uint8_t> bytes(side == Side::keys || layout.values_are_keys ? layout.key_bytes()
                                                                          : layout.value_bytes());
  const uint8_t pattern[2] = {0x01, 0x7f}; // a half that is not a number
  const uint8_t float_pattern[4] = {0x01, 0x00, 0xc0, 0x7f};
  const bool wide = type_of(layout, side) == pumice::CacheType::f32;
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = wide ? float_pattern[i % 4] : pattern[i % 2];
  return bytes;
}

// The bytes of a part of a divided cache, from those of a cache that is whole.
inline std::vector<uint8_t> part_of(const pumice::CacheLayout& layout, Side side, uint32_t index,
                                    const std::vector<uint8_t>& bytes) {
  const size_t tile_bytes = side == Side::keys ? layout.key_tile_bytes() : layout.value_tile_bytes();
  const pumice::CacheLayout part = layout.part(index);
  const bool by_positions = layout.split == pumice::CacheSplit::positions;
  const size_t first_sequence = by_positions ? 0 : part.part_first;
  const size_t skipped = by_positions ? part.part_first / 8 * tile_bytes : 0;
  std::vector<uint8_t> result;
  for (size_t head = 0; head < size_t{part.sequences} * layout.kv_heads; ++head) {
    const auto from = bytes.begin() + static_cast<ptrdiff_t>((first_sequence * layout.kv_heads + head) *
                                                                 (layout.capacity / 8) * tile_bytes +
                                                             skipped);
    result.insert(result.end(), from, from + static_cast<ptrdiff_t>(part.capacity / 8 * tile_bytes));
  }
  return result;
}

} // namespace cache_reference
