#include "io/quantised/ternary_blocks.h"

#include <algorithm>
#include <cmath>
#include <mutex>

namespace pumice {

namespace {

// What of a matrix is in a file, as codes from 0 to 3, each one more than its weight.
class TernaryCodes {
public:
  virtual ~TernaryCodes() = default;
  virtual float scale() const = 0;
  virtual uint8_t code(uint64_t weight) const = 0;
};

class PackedCodes : public TernaryCodes {
public:
  PackedCodes(const FolderArray& codes, float scale) : codes_(codes), scale_(scale) {}

  float scale() const override { return scale_; }
  uint8_t code(uint64_t weight) const override {
    const uint64_t quarter = codes_.data.size();
    return codes_.at<uint8_t>(weight % quarter) >> 2 * (weight / quarter) & 3;
  }

private:
  const FolderArray codes_;
  const float scale_;
};

// Reads all weights when it is first asked, not when the file is opened.
class RoundedCodes : public TernaryCodes {
public:
  explicit RoundedCodes(const FolderArray& weights) : weights_(weights) {}

  float scale() const override {
    std::call_once(once_, [&] {
      double sum = 0;
      const uint64_t count = weights_.elements();
      for (uint64_t i = 0; i < count; ++i) sum += std::abs(weights_.float_at(i));
      scale_ = std::max(static_cast<float>(sum / static_cast<double>(count)), 1e-5f);
    });
    return scale_;
  }
  uint8_t code(uint64_t weight) const override {
    const float rounded = std::nearbyint(weights_.float_at(weight) * (1 / scale()));
    return static_cast<uint8_t>(std::clamp(rounded, -1.0f, 1.0f) + 1);
  }

private:
  const FolderArray weights_;
  mutable std::once_flag once_;
  mutable float scale_ = 0;
};

class TernaryBlocks : public BlockSource {
public:
  TernaryBlocks(TensorType type, std::unique_ptr<const TernaryCodes> codes)
      : type_(type), codes_(std::move(codes)) {}

  void read(uint64_t first, uint64_t count, std::byte* to) const override {
    const TensorTypeInfo& of = info(type_);
    for (uint64_t block = first; block < first + count; ++block, to += of.block_bytes)
      put(block * of.block_size, to);
  }

private:
  void put(uint64_t first, std::byte* to) const {
    const float scale = codes_->scale();
    const auto code = [&](uint64_t i) { return codes_->code(first + i); };
    if (type_ == TensorType::tq2_0) { // of 128 weights, those 32 apart lie in one byte
      std::fill_n(to, 64, std::byte{0});
      for (uint64_t i = 0; i < 256; ++i)
        to[i / 128 * 32 + i % 32] |= static_cast<std::byte>(code(i) << i % 128 / 32 * 2);
      const uint16_t half = float_to_half(scale);
      std::memcpy(to + 64, &half, sizeof half);
    } else if (type_ == TensorType::int4) {
      std::memcpy(to, &scale, sizeof scale);
      for (uint64_t i = 0; i < 16; ++i)
        to[4 + i] = static_cast<std::byte>((code(i) + 7) | (code(i + 16) + 7) << 4);
    } else {
      const float value = scale * static_cast<float>(code(0) - 1);
      std::memcpy(to, &value, sizeof value);
    }
  }

  const TensorType type_;
  const std::unique_ptr<const TernaryCodes> codes_;
};

TernaryMatrix ternary_matrix(std::unique_ptr<const TernaryCodes> codes, std::vector<uint64_t> shape,
                             bool half) {
  const uint64_t columns = shape.back();
  const TensorType type = half && columns % info(TensorType::tq2_0).block_size == 0 ? TensorType::tq2_0
                          : columns % info(TensorType::int4).block_size == 0        ? TensorType::int4
                                                                                    : TensorType::f32;
  return {type, std::move(shape), std::make_shared<TernaryBlocks>(type, std::move(codes))};
}

} // namespace

TernaryMatrix packed_ternary(const FolderArray& codes, float scale) {
  const bool half = half_to_float(float_to_half(scale)) == scale;
  return ternary_matrix(std::make_unique<PackedCodes>(codes, scale), {codes.shape[0] * 4, codes.shape[1]},
                        half);
}

TernaryMatrix rounded_ternary(const FolderArray& weights) {
  return ternary_matrix(std::make_unique<RoundedCodes>(weights), weights.shape, false);
}

} // namespace pumice
