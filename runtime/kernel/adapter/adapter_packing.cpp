#include "kernel/adapter/adapter_packing.h"

#include <cassert>
#include <cstring>

#include "base/align.h"
#include "kernel/weight_packing.h"
#include "shaders/adapter/adapter_down.params.h"

namespace pumice {

namespace {

constexpr uint64_t scale_bytes = ADAPTER_RANKS * sizeof(float);

uint64_t number_bytes(TensorType numbers) {
  assert(numbers == TensorType::f32 || numbers == TensorType::f16 || numbers == TensorType::bf16);
  return info(numbers).block_bytes;
}

uint64_t padded(uint32_t columns) {
  return align(columns, 32);
}

uint64_t tile_bytes(TensorType numbers, uint32_t columns) {
  return scale_bytes + padded(columns) * ADAPTER_RANKS * number_bytes(numbers);
}

void put(TensorType numbers, float value, std::byte* to) {
  if (numbers == TensorType::f32) {
    std::memcpy(to, &value, sizeof(value));
    return;
  }
  const uint16_t bits = numbers == TensorType::f16 ? float_to_half(value) : float_to_bf16(value);
  std::memcpy(to, &bits, sizeof(bits));
}

constexpr uint64_t tile_head_bytes = 16;

} // namespace

uint32_t padded_adapter_rank(uint32_t rank) {
  return static_cast<uint32_t>(align(rank, ADAPTER_RANKS));
}

uint64_t adapter_down_bytes(TensorType numbers, uint32_t rank, uint32_t columns) {
  return rank / ADAPTER_RANKS * tile_bytes(numbers, columns);
}

uint64_t adapter_up_bytes(TensorType numbers, uint32_t rank, uint32_t rows) {
  return rank * padded(rows) * number_bytes(numbers);
}

uint64_t adapter_tile_bytes(TensorType numbers, uint32_t rank) {
  return tile_head_bytes + rank * 8 * number_bytes(numbers);
}

uint64_t adapter_tiles_bytes(TensorType numbers, uint32_t rank, uint64_t rows) {
  return align(rows, merged_columns) / 8 * adapter_tile_bytes(numbers, rank);
}

std::vector<std::byte> packed_adapter_down(TensorType numbers, uint32_t rank, const AdapterMatrix& matrix) {
  assert(matrix.rank <= rank);
  std::vector<std::byte> bytes(adapter_down_bytes(numbers, rank, matrix.columns));
  const uint64_t size = number_bytes(numbers), of_dword = 4 / size;
  for (uint32_t r = 0; r < matrix.rank; ++r) {
    const uint32_t lane = r % ADAPTER_RANKS;
    std::byte* const tile = bytes.data() + r / ADAPTER_RANKS * tile_bytes(numbers, matrix.columns);
    std::memcpy(tile + lane * sizeof(float), &matrix.scales[r], sizeof(float));
    for (uint32_t i = 0; i < matrix.columns; ++i) {
      const uint64_t at = (i / of_dword * ADAPTER_RANKS + lane) * of_dword + i % of_dword;
      put(numbers, matrix.down[uint64_t{r} * matrix.columns + i], tile + scale_bytes + at * size);
    }
  }
  return bytes;
}

std::vector<std::byte> packed_adapter_up(TensorType numbers, uint32_t rank, const AdapterMatrix& matrix) {
  assert(matrix.rank <= rank);
  std::vector<std::byte> bytes(adapter_up_bytes(numbers, rank, matrix.rows));
  const uint64_t size = number_bytes(numbers);
  for (uint32_t r = 0; r < matrix.rank; ++r) {
    std::byte* const row = bytes.data() + r * padded(matrix.rows) * size;
    for (uint32_t i = 0; i < matrix.rows; ++i) {
      const uint64_t pair = i / 16 * 16 + i % 8 * 2 + i / 8 % 2;
      put(numbers, matrix.up[uint64_t{r} * matrix.rows + i], row + (size == 4 ? i : pair) * size);
    }
  }
  return bytes;
}

std::vector<std::byte> packed_adapter_tiles(TensorType numbers, uint32_t rank, uint32_t h_first,
                                            const AdapterMatrix& matrix) {
  assert(matrix.rank <= rank);
  std::vector<std::byte> bytes(adapter_tiles_bytes(numbers, rank, matrix.rows));
  const uint64_t size = number_bytes(numbers), of_dword = 4 / size;
  const uint64_t tile_bytes = adapter_tile_bytes(numbers, rank);
  for (uint64_t first = 0; first < bytes.size(); first += tile_bytes) {
    std::memcpy(bytes.data() + first, &h_first, sizeof(h_first));
  }
  for (uint32_t r = 0; r < matrix.rank; ++r) {
    for (uint32_t i = 0; i < matrix.rows; ++i) {
      const uint64_t at = (r / of_dword * 8 + i % 8) * of_dword + r % of_dword;
      std::byte* const tile = bytes.data() + i / 8 * tile_bytes + tile_head_bytes;
      put(numbers, matrix.up[uint64_t{r} * matrix.rows + i], tile + at * size);
    }
  }
  return bytes;
}

} // namespace pumice
