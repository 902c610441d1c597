#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "io/tensor_type.h"

namespace pumice {

// How the two matrices of an adapter lie on the device. Their numbers are kept as the file has them: F32,
// F16 or BF16, so that nothing is lost and no more is read than there is.

// Of one of a model's matrices, in the host's memory.
struct AdapterMatrix {
  uint32_t rank = 0;
  uint32_t rows = 0, columns = 0; // of the model's matrix
  std::vector<float> scales;      // of each rank: what it adds is multiplied by it
  std::vector<float> down;        // [rank, columns]
  std::vector<float> up;          // [rank, rows]: its rows are columns of what files have
};

// A rank that the places have room for.
uint32_t padded_adapter_rank(uint32_t rank);

// The bytes of a matrix with a padded_adapter_rank().
uint64_t adapter_down_bytes(TensorType numbers, uint32_t rank, uint32_t columns);
uint64_t adapter_up_bytes(TensorType numbers, uint32_t rank, uint32_t rows);

// The second matrix where a product adds it itself, and a tile of it.
uint64_t adapter_tiles_bytes(TensorType numbers, uint32_t rank, uint64_t rows);
uint64_t adapter_tile_bytes(TensorType numbers, uint32_t rank);

// Such a matrix, with zeros around it, as shaders/adapter/adapter_down.params.h and adapter_up.params.h have
// it. All of its numbers have to be of that type.
std::vector<std::byte> packed_adapter_down(TensorType numbers, uint32_t rank, const AdapterMatrix& matrix);
std::vector<std::byte> packed_adapter_up(TensorType numbers, uint32_t rank, const AdapterMatrix& matrix);
// As shaders/matmul/adapter_sum.glsl has it; `h_first`: where its sums begin in a row, in floats.
std::vector<std::byte> packed_adapter_tiles(TensorType numbers, uint32_t rank, uint32_t h_first,
                                            const AdapterMatrix& matrix);

} // namespace pumice
