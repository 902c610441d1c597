#include "kernel/weight_packing.h"

#include "io/tensor_type.h"

#include <array>
#include <cstring>
#include <random>
#include <vector>

#include <doctest/doctest.h>

using namespace pumice;

// A model may begin at any byte of a packed file. Sanitizers see to it that nothing here relies on more.
TEST_CASE("weights of every type are read from wherever they lie") {
  constexpr uint64_t rows = 8, columns = 256;
  std::mt19937 random(1);
  for (const TensorTypeInfo& entry : tensor_types()) {
    const TensorType type = entry.type;
    CAPTURE(std::string(info(type).name));
    const uint64_t bytes = *tensor_bytes(type, std::vector<uint64_t>{rows, columns});
    std::vector<uint64_t> storage(bytes / 8 + 2);
    const std::span<std::byte> memory = std::as_writable_bytes(std::span(storage));
    std::vector<std::byte> values(bytes);
    // No infinities or NaNs among plain numbers: their bytes would not compare equal as floats.
    for (std::byte& value : values) value = static_cast<std::byte>(random() & 0x3f);

    std::vector<std::byte> expected_payload, expected_scales;
    std::vector<float> expected_row;
    for (size_t turn = 0; turn < 15; ++turn) {
      const uint32_t lane_bytes = std::array{16u, 4u, 2u}[turn / 5];
      const size_t offset = std::array{0u, 1u, 2u, 3u, 5u}[turn % 5];
      CAPTURE(lane_bytes);
      CAPTURE(offset);
      std::memcpy(memory.data() + offset, values.data(), bytes);
      const TensorView tensor{"weight", type, {rows, columns}, memory.subspan(offset, bytes)};
      const WeightView view = WeightView::whole(tensor);
      const PackedFormat format{type, static_cast<uint32_t>(columns), lane_bytes};
      std::vector<std::byte> payload(format.tile_payload_bytes()), scales(format.tile_scale_bytes());
      pack_tile(format, {&view, 0, 8}, payload, scales);
      std::vector<float> row(columns);
      decode_row(type, tensor.data.data() + row_bytes(type, columns), row);
      if (offset == 0) {
        expected_payload = payload;
        expected_scales = scales;
        expected_row = row;
      }
      CHECK((payload == expected_payload));
      CHECK((scales == expected_scales));
      CHECK((row == expected_row));
      if (info(type).block_size > 1) continue;
      // Read column by column, and quantised while it is packed.
      const WeightView turned = WeightView::transpose(tensor);
      const PackedFormat narrow{type, static_cast<uint32_t>(rows), lane_bytes};
      payload.resize(narrow.tile_payload_bytes());
      pack_tile(narrow, {&turned, 0, 8}, payload, {});
      const PackedFormat quantised{TensorType::q8_0, static_cast<uint32_t>(columns), lane_bytes};
      payload.resize(quantised.tile_payload_bytes());
      scales.resize(quantised.tile_scale_bytes());
      pack_tile(quantised, {&view, 0, 8}, payload, scales);
    }
  }
}
