#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

// The weights of a fixture: numbers from a seed and a tensor's name, the same bits on every machine.
// tools/fixtures.py makes the same ones for the reference.

// splitmix64, started at the FNV-1a hash of the name, exclusive-or the seed.
class SeededWords {
public:
  SeededWords(uint64_t seed, std::string_view name) {
    for (const char c : name) state_ = (state_ ^ static_cast<uint8_t>(c)) * 0x100000001b3;
    state_ ^= seed;
  }

  uint64_t next() {
    uint64_t z = state_ += 0x9e3779b97f4a7c15;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }

private:
  uint64_t state_ = 0xcbf29ce484222325;
};

// `count` numbers of mean - spread up to mean + spread. A spread is a power of two, so that the sum is
// rounded once and a fused multiply-add changes nothing.
inline std::vector<float> seeded_floats(uint64_t seed, std::string_view name, size_t count, float mean,
                                        float spread) {
  constexpr int32_t half = 1 << 23;
  SeededWords words(seed, name);
  std::vector<float> values(count);
  for (float& value : values) {
    const auto steps = static_cast<int32_t>(words.next() >> 40) - half;
    value = mean + static_cast<float>(steps) * (spread / half);
  }
  return values;
}

// A quantised type's block: a field of 16 bits keeps the random bits of its mask and has those of its value.
struct SeededBlock {
  struct Field {
    size_t offset;
    uint16_t mask, value;
  };
  size_t elements, bytes;
  std::vector<Field> fields;
};

inline std::vector<std::byte> seeded_blocks(uint64_t seed, std::string_view name, size_t blocks,
                                            const SeededBlock& block) {
  SeededWords words(seed, name);
  std::vector<std::byte> data(blocks * block.bytes);
  uint64_t word = 0;
  for (size_t i = 0; i < data.size(); ++i) {
    if (i % 8 == 0) word = words.next();
    data[i] = static_cast<std::byte>(word >> (8 * (i % 8)));
  }
  for (size_t at = 0; at < data.size(); at += block.bytes) {
    for (const SeededBlock::Field& field : block.fields) {
      std::byte* low = data.data() + at + field.offset;
      low[0] = (low[0] & static_cast<std::byte>(field.mask)) | static_cast<std::byte>(field.value);
      low[1] = (low[1] & static_cast<std::byte>(field.mask >> 8)) | static_cast<std::byte>(field.value >> 8);
    }
  }
  return data;
}
