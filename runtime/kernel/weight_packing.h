#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "io/tensor_type.h"
#include "io/weight_view.h"
#include "kernel/device_profile.h"

namespace pumice {

// Weight matrices are packed for the device in tiles of eight rows. A tile's payload is
//     [block of 32 columns][byte of a row / lane_bytes][8 rows][lane_bytes bytes]
// Each lane loads one row, so neighbouring lanes load neighbouring memory. Where the bytes of a row's block
// are not a multiple of lane_bytes, the last group is narrower. Scales are stored separately, as
//     [dword][8 rows]
// The dwords of a row hold the scales of its blocks in order. Where the scales themselves have a scale, a
// dword with it comes before those of every eight blocks. Columns are padded with zeros to whole blocks; the
// number of tiles is padded to a multiple of four.
//
// A block of quantised weights with `bits` bits each is stored as planes of 8, 4, 2 or 1 bits, the plane of
// the lowest bits first. A plane has as many dwords as it has bits. Byte i of a plane's dword d holds column
// 4 * (d + n * dwords) + i in its n-th group of bits. Codes with an offset are stored in two's complement.

// Eight rows of a packed weight: rows first_row .. first_row + rows - 1 of a weight, then zeros.
struct TileSource {
  const WeightView* weight = nullptr; // null for a tile of zeros
  uint32_t first_row = 0;
  uint32_t rows = 0;
};

// Where one product computes several matrices, each result begins at a multiple of this many columns (256
// bytes), so that a descriptor can begin there on every device.
constexpr uint32_t merged_columns = 64;

struct PackedFormat {
  TensorType type = TensorType::f32;
  uint32_t columns = 0;
  uint32_t lane_bytes = 16; // consecutive bytes of one row: DeviceProfile::weight_lane_bytes()

  uint32_t blocks() const { return (columns + 31) / 32; }
  uint32_t payload_dwords() const; // of one row's block of 32
  uint32_t scale_dwords() const;   // of one row
  bool scaled() const { return scale_dwords() != 0; }
  uint64_t tile_payload_bytes() const { return uint64_t{blocks()} * payload_dwords() * 32; }
  uint64_t tile_scale_bytes() const { return uint64_t{scale_dwords()} * 32; }
};

// The name that a kernel's variant for this type has: "q8_0".
std::string kernel_variant(TensorType type);
// That of a kernel for CPU drivers, which may have one for a way to lay tiles out.
std::string cpu8_kernel_variant(const PackedFormat& format);

// Writes one tile's payload and scales. The spans have tile_payload_bytes() and tile_scale_bytes(). If the
// format's type differs from the weight's, the rows are quantised to it.
void pack_tile(const PackedFormat& format, const TileSource& source, std::span<std::byte> payload,
               std::span<std::byte> scales);

} // namespace pumice
