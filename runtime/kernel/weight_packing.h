#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "io/tensor_type.h"
#include "io/weight_view.h"
#include "kernel/device_profile.h"

namespace pumice {

// Weight matrices are packed for the device in tiles of eight rows. A tile's payload is
//     [block of 32 columns][chunk][8 rows][chunk dwords]
// so that neighbouring lanes, a row each, load neighbouring memory; a block's last chunk is narrower where
// its dwords are not a whole number of chunks. Scales lie apart as
//     [dword][8 rows]
// where the dwords of a row hold the scales of one block after the other, and for types whose scales have a
// scale of their own each eight blocks begin with a dword for that. Columns are padded with zeros to whole
// blocks, tiles to a multiple of four.
//
// A quantised block of `bits` to a weight is made of planes of 8, 4, 2 or 1 bits, the lowest bits' plane
// first, each plane as many dwords as it has bits. Byte i of a plane's dword d holds column 4 * (d + n *
// dwords)
// + i in its n-th group of bits. Where codes are numbers with an offset, they become two's complement.

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
  uint32_t chunk = 4; // dwords, from DeviceProfile::weight_chunk

  uint32_t blocks() const { return (columns + 31) / 32; }
  uint32_t payload_dwords() const; // of one row's block of 32
  uint32_t scale_dwords() const;   // of one row
  bool scaled() const { return scale_dwords() != 0; }
  uint64_t tile_payload_bytes() const { return uint64_t{blocks()} * payload_dwords() * 32; }
  uint64_t tile_scale_bytes() const { return uint64_t{scale_dwords()} * 32; }
};

// The name of a type among the variants of a kernel: "q8_0".
std::string kernel_variant(TensorType type);

// Writes one tile's payload and scales. The spans have tile_payload_bytes() and tile_scale_bytes(). Rows of
// plain numbers are quantised on the way if the format is of another type.
void pack_tile(const PackedFormat& format, const TileSource& source, std::span<std::byte> payload,
               std::span<std::byte> scales);

} // namespace pumice
