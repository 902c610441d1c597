#pragma once

#include <optional>
#include <vector>

#include "io/quantize.h"
#include "io/tensor_type.h"
#include "io/tensor_view.h"
#include "kernel/packed_weight.h"
#include "kernel/products/rows.h"
#include "tuning/random_weight.h"

// Weights for tests of kernels.

// A matrix as a file has it. Stays where it is: its view points into it.
struct TestWeight {
  std::vector<std::byte> data;
  pumice::TensorView view;
  pumice::WeightView weight;

  std::optional<pumice::TensorType> quantised; // what it is packed as, if not as it is

  TestWeight(pumice::TensorType type, uint32_t rows, uint32_t columns, uint32_t seed,
             std::optional<pumice::TensorType> quantised_to = {})
      : quantised(quantised_to) {
    data = pumice::random_weight(type, rows, columns, seed);
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
