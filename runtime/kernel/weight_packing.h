#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "io/tensor_type.h"
#include "io/weight_view.h"
#include "kernel/style.h"

namespace pumice {

// Weight matrices are packed for the device in tiles of eight rows. A tile's payload is
//     [block of 32 columns][chunk][8 rows][chunk dwords]
// so that neighbouring lanes, a row each, load neighbouring memory; scales lie apart as
//     [pair of blocks][8 rows] dwords of two halves.
// Columns are padded with zeros to whole blocks, tiles to a multiple of four.

// Eight rows of a packed weight: rows first_row .. first_row + rows - 1 of a weight, then zeros.
struct TileSource {
  const WeightView* weight = nullptr; // null for a tile of zeros
  uint32_t first_row = 0;
  uint32_t rows = 0;
};

// In a product of several matrices, each one's result begins at a multiple of this many columns, which is
// where any device can begin a binding (256 bytes).
constexpr uint32_t merged_columns = 64;

struct PackedFormat {
  TensorType type = TensorType::f32;
  uint32_t columns = 0;
  uint32_t chunk = 4; // dwords, from KernelStyle::weight_chunk

  uint32_t blocks() const { return (columns + 31) / 32; }
  uint32_t payload_dwords() const; // of one row's block of 32
  bool scaled() const;
  uint64_t tile_payload_bytes() const { return uint64_t{blocks()} * payload_dwords() * 32; }
  uint64_t tile_scale_bytes() const { return scaled() ? uint64_t{(blocks() + 1) / 2} * 32 : 0; }
};

// True if matrices of this type can be packed; the others are decoded to f32 first, or refused.
bool can_pack(TensorType type);

// Writes one tile's payload and scales. The spans have tile_payload_bytes() and tile_scale_bytes().
void pack_tile(const PackedFormat& format, const TileSource& source, std::span<std::byte> payload,
               std::span<std::byte> scales);

} // namespace pumice
