#pragma once

#include <cstring>
#include <random>
#include <vector>

#include "io/tensor_type.h"
#include "io/tensor_view.h"
#include "kernel/packed_weight.h"
#include "kernel/rows.h"

// Weights for tests of kernels.

// A matrix as a file has it. Stays where it is: its view points into it.
struct TestWeight {
  std::vector<std::byte> data;
  pumice::TensorView view;
  pumice::WeightView weight;

  TestWeight(pumice::TensorType type, uint32_t rows, uint32_t columns, uint32_t seed) {
    const pumice::TensorTypeInfo& info = pumice::info(type);
    data.resize(rows * pumice::row_bytes(type, columns));
    std::mt19937 random(seed);
    for (std::byte& byte : data) byte = static_cast<std::byte>(random());
    const std::vector<float> values = random_values(data.size(), seed);
    // Quantised blocks are right with any bytes but for their scales; plain numbers are made from floats.
    for (size_t at = 0, i = 0; at < data.size(); at += info.block_bytes, ++i) {
      const uint16_t half = info.block_size > 1                ? pumice::float_to_half(values[i] * 0.02f)
                            : type == pumice::TensorType::bf16 ? pumice::float_to_bf16(values[i])
                                                               : pumice::float_to_half(values[i]);
      if (type == pumice::TensorType::f32) {
        std::memcpy(data.data() + at, &values[i], 4);
      } else {
        std::memcpy(data.data() + at, &half, 2);
      }
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

inline constexpr pumice::TensorType weight_types[] = {pumice::TensorType::f32, pumice::TensorType::f16,
                                                      pumice::TensorType::bf16, pumice::TensorType::q8_0,
                                                      pumice::TensorType::q4_0};
