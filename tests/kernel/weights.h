#pragma once

#include <cstring>
#include <optional>
#include <random>
#include <vector>

#include "io/quantize.h"
#include "io/tensor_type.h"
#include "io/tensor_view.h"
#include "kernel/packed_weight.h"
#include "kernel/rows.h"

// Weights for tests of kernels.

// Quantised blocks are right with any bytes but for their scales, plain numbers are made from floats.
inline void make_sane(pumice::TensorType type, std::byte* block, float a, float b) {
  using enum pumice::TensorType;
  const auto half = [&](size_t at, float value) {
    const uint16_t bits = type == bf16 ? pumice::float_to_bf16(value) : pumice::float_to_half(value);
    std::memcpy(block + at, &bits, 2);
  };
  switch (type) {
  case f32:
    std::memcpy(block, &a, 4);
    break;
  case f16:
  case bf16:
    half(0, a);
    break;
  case q8_0:
  case q4_0:
  case q5_0:
  case iq4_nl:
  case iq4_xs:
    half(0, a * 0.02f);
    break;
  case q4_1:
  case q5_1:
  case q4_k:
  case q5_k:
    half(0, a * 0.02f);
    half(2, b * 0.1f);
    break;
  case q2_k:
    half(80, a * 0.02f);
    half(82, b * 0.02f);
    break;
  case q3_k:
    half(108, a * 0.02f);
    break;
  case q6_k:
    half(208, a * 0.02f);
    break;
  case mxfp4:
    block[0] = static_cast<std::byte>(120 + static_cast<int>(a * 4));
    break;
  }
}

// A matrix as a file has it. Stays where it is: its view points into it.
struct TestWeight {
  std::vector<std::byte> data;
  pumice::TensorView view;
  pumice::WeightView weight;

  std::optional<pumice::TensorType> quantised; // what it is packed as, if not as it is

  TestWeight(pumice::TensorType type, uint32_t rows, uint32_t columns, uint32_t seed,
             std::optional<pumice::TensorType> quantised_to = {})
      : quantised(quantised_to) {
    const pumice::TensorTypeInfo& info = pumice::info(type);
    data.resize(rows * pumice::row_bytes(type, columns));
    std::mt19937 random(seed);
    for (std::byte& byte : data) byte = static_cast<std::byte>(random());
    const std::vector<float> values = random_values(data.size(), seed);
    for (size_t at = 0, i = 0; at < data.size(); at += info.block_bytes, i += 2) {
      make_sane(type, data.data() + at, values[i], values[i + 1]);
    }
    view.type = type;
    view.shape = {rows, columns};
    view.data = data;
    weight = pumice::WeightView::whole(view);
  }
  TestWeight(const TestWeight&) = delete;
  TestWeight& operator=(const TestWeight&) = delete;

  uint32_t rows() const { return static_cast<uint32_t>(view.shape[0]); }
  uint32_t columns() const { return static_cast<uint32_t>(view.shape[1]); }
  std::vector<float> decoded(uint32_t row) const {
    std::vector<float> out(columns());
    pumice::decode_row(view.type, data.data() + row * pumice::row_bytes(view.type, columns()), out);
    if (quantised) {
      const uint32_t block = pumice::info(*quantised).block_size;
      out.resize((columns() + block - 1) / block * block);
      std::vector<std::byte> bytes(pumice::row_bytes(*quantised, out.size()));
      pumice::quantize_row(*quantised, out, bytes.data());
      pumice::decode_row(*quantised, bytes.data(), out);
      out.resize(columns());
    }
    return out;
  }
  // Tile `tile` of it, of zeros past its end.
  pumice::TileSource tile(uint32_t tile) const {
    if (tile * 8 >= rows()) return {};
    return {&weight, tile * 8, std::min(8u, rows() - tile * 8)};
  }
};

// Puts tiles on the device as one segment.
inline pumice::WeightSegment upload_tiles(const pumice::PackedFormat& format,
                                          const std::vector<pumice::TileSource>& tiles,
                                          uint32_t first_tile = 0) {
  const size_t payload_bytes = format.tile_payload_bytes(), scale_bytes = format.tile_scale_bytes();
  std::vector<std::byte> payload(tiles.size() * payload_bytes), scales(tiles.size() * scale_bytes);
  for (size_t i = 0; i < tiles.size(); ++i) {
    pumice::pack_tile(format, tiles[i], std::span(payload).subspan(i * payload_bytes, payload_bytes),
                      std::span(scales).subspan(i * scale_bytes, scale_bytes));
  }
  pumice::WeightSegment segment;
  segment.first_tile = first_tile;
  segment.tiles = static_cast<uint32_t>(tiles.size());
  segment.payload = TestGpu::get().upload(payload);
  if (!scales.empty()) segment.scales = TestGpu::get().upload(scales);
  return segment;
}

inline const std::vector<pumice::TensorType> weight_types = [] {
  std::vector<pumice::TensorType> types;
  for (const pumice::TensorTypeInfo& info : pumice::tensor_types()) types.push_back(info.type);
  return types;
}();
