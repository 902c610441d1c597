#include "kernel/weight_packing.h"

#include <cassert>
#include <cstring>
#include <vector>

namespace pumice {

namespace {

// How one block of 32 weights leaves the file: `read` writes the payload's dwords and returns the scale's
// bits.
struct Packing {
  TensorType type;
  uint32_t payload_dwords;
  bool scaled;
  uint16_t (*read)(const std::byte* block, uint32_t columns, uint32_t* payload);
};

// Plain numbers are the payload as they are; a last block that is not full ends in zeros.
template <uint32_t element_bytes>
uint16_t read_plain(const std::byte* block, uint32_t columns, uint32_t* payload) {
  std::memset(payload, 0, 32 * element_bytes);
  std::memcpy(payload, block, size_t{columns} * element_bytes);
  return 0;
}

uint16_t read_scale(const std::byte* block) {
  uint16_t scale;
  std::memcpy(&scale, block, 2);
  return scale;
}

uint16_t read_q8_0(const std::byte* block, uint32_t, uint32_t* payload) {
  std::memcpy(payload, block + 2, 32);
  return read_scale(block);
}

uint16_t read_q4_0(const std::byte* block, uint32_t, uint32_t* payload) {
  std::memcpy(payload, block + 2, 16);
  for (int i = 0; i < 4; ++i) payload[i] ^= 0x88888888u; // offset binary to two's complement
  return read_scale(block);
}

constexpr Packing packings[] = {
    {TensorType::f32, 32, false, read_plain<4>},  {TensorType::f16, 16, false, read_plain<2>},
    {TensorType::bf16, 16, false, read_plain<2>}, {TensorType::q8_0, 8, true, read_q8_0},
    {TensorType::q4_0, 4, true, read_q4_0},
};

// A row's bytes as a file has them one after the other. Those of a transposed weight are put into `gathered`
// first.
const std::byte* source_row(const WeightView& weight, uint64_t row, std::vector<std::byte>& gathered) {
  const uint64_t stride = weight.tensor_row_bytes();
  const std::byte* data = weight.tensor->data.data();
  if (!weight.transposed) return data + weight.source_row(row) * stride;
  const uint64_t element = info(weight.type()).block_bytes;
  gathered.resize(weight.columns * element);
  data += weight.source_row(row) * element;
  for (uint64_t column = 0; column < weight.columns; ++column) {
    std::memcpy(gathered.data() + column * element, data + column * stride, element);
  }
  return gathered.data();
}

const Packing* find_packing(TensorType type) {
  for (const Packing& packing : packings) {
    if (packing.type == type) return &packing;
  }
  return nullptr;
}

} // namespace

uint32_t PackedFormat::payload_dwords() const {
  return find_packing(type)->payload_dwords;
}
bool PackedFormat::scaled() const {
  return find_packing(type)->scaled;
}
bool can_pack(TensorType type) {
  return find_packing(type) != nullptr;
}

void pack_tile(const PackedFormat& format, const TileSource& source, std::span<std::byte> payload,
               std::span<std::byte> scales) {
  const Packing& packing = *find_packing(format.type);
  const TensorTypeInfo& type = info(format.type);
  const uint32_t dwords = packing.payload_dwords;
  const uint32_t chunk = format.chunk;
  assert(payload.size() == format.tile_payload_bytes() && scales.size() == format.tile_scale_bytes());
  if (source.rows < 8) {
    std::memset(payload.data(), 0, payload.size());
    std::memset(scales.data(), 0, scales.size());
  }
  std::vector<std::byte> gathered;
  const uint64_t block_step = uint64_t{32} / type.block_size * type.block_bytes;
  for (uint32_t row = 0; row < source.rows; ++row) {
    const std::byte* in = source_row(*source.weight, source.first_row + row, gathered);
    std::byte* lane = payload.data() + size_t{row} * chunk * 4;
    for (uint32_t block = 0; block < format.blocks(); ++block, in += block_step) {
      uint32_t words[32];
      const uint16_t scale = packing.read(in, std::min(32u, format.columns - block * 32), words);
      for (uint32_t word = 0; word < dwords; word += chunk) {
        std::memcpy(lane, words + word, chunk * 4);
        lane += size_t{8} * chunk * 4;
      }
      if (packing.scaled) {
        std::memcpy(scales.data() + (size_t{block / 2} * 8 + row) * 4 + (block % 2) * 2, &scale, 2);
      }
    }
    // An odd number of blocks leaves the second half of the last scale pair: it must not be whatever was
    // there.
    if (packing.scaled && format.blocks() % 2) {
      std::memset(scales.data() + (size_t{format.blocks() / 2} * 8 + row) * 4 + 2, 0, 2);
    }
  }
}

} // namespace pumice
