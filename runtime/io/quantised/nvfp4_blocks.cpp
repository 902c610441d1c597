#include "io/quantised/nvfp4_blocks.h"

#include <cmath>

namespace pumice {

namespace {

constexpr float e2m1_sizes[8] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6}; // OCP's E2M1, without the sign

float e4m3_value(uint8_t code) {
  const int exponent = code >> 3 & 15;
  const auto mantissa = static_cast<float>((code & 7) + (exponent ? 8 : 0));
  return std::ldexp(code & 128 ? -mantissa : mantissa, (exponent ? exponent : 1) - 10);
}

class Nvfp4Blocks : public BlockSource {
public:
  Nvfp4Blocks(const FolderArray& codes, const FolderArray& scales, float factor)
      : codes_(codes), scales_(scales), factor_(factor) {}

  void read(uint64_t first, uint64_t count, std::byte* to) const override {
    for (uint64_t weight = first; weight < first + count; ++weight, to += sizeof(float)) {
      const int code = codes_.at<uint8_t>(weight / 2) >> (weight % 2 ? 4 : 0) & 15;
      const float scale = factor_ * e4m3_value(scales_.at<uint8_t>(weight / 16));
      const float value = scale * (code & 8 ? -e2m1_sizes[code & 7] : e2m1_sizes[code]);
      std::memcpy(to, &value, sizeof value);
    }
  }

private:
  const FolderArray codes_, scales_;
  const float factor_;
};

class GgufBlocks : public BlockSource {
public:
  GgufBlocks(std::span<const std::byte> blocks, float factor) : blocks_(blocks), factor_(factor) {}

  void read(uint64_t first, uint64_t count, std::byte* to) const override {
    constexpr TensorType type = TensorType::nvfp4;
    constexpr uint64_t size = 64;
    float values[size];
    for (uint64_t weight = first; weight < first + count; ++weight, to += sizeof(float)) {
      if (weight == first || weight % size == 0)
        decode_row(type, blocks_.data() + weight / size * info(type).block_bytes, values);
      const float value = factor_ * values[weight % size];
      std::memcpy(to, &value, sizeof value);
    }
  }

private:
  const std::span<const std::byte> blocks_;
  const float factor_;
};

} // namespace

std::shared_ptr<const BlockSource> nvfp4_blocks(std::span<const std::byte> blocks, float factor) {
  return std::make_shared<GgufBlocks>(blocks, factor);
}

std::shared_ptr<const BlockSource> nvfp4_blocks(const FolderArray& codes, const FolderArray& scales,
                                                float factor) {
  return std::make_shared<Nvfp4Blocks>(codes, scales, factor);
}

} // namespace pumice
