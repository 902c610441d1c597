#pragma once

#include <cstdint>

#include "kernel/dispatch.h"

namespace pumice {

enum class CacheType : uint32_t { f32, f16 };
const char* to_string(CacheType type);

// Keys and values of one layer. Keys lie in tiles of eight positions, so that eight lanes, a position each,
// load neighbouring memory; values lie a position after the other, so that lanes, some dimensions each, do:
//   keys:   [sequence][kv_head][position / 8][head_dim / per_chunk][position % 8][per_chunk]
//   values: [sequence][kv_head][position][head_dim]
// head_dim is padded with zeros to head_dim_padded() and positions to a multiple of 32.
struct CacheLayout {
  CacheType type = CacheType::f16;
  uint32_t sequences = 1;
  uint32_t capacity = 0; // positions of one sequence, a multiple of 32
  uint32_t kv_heads = 0;
  uint32_t head_dim = 0;

  uint32_t element_bytes() const { return type == CacheType::f32 ? 4 : 2; }
  uint32_t per_chunk() const { return 16 / element_bytes(); } // elements in 16 bytes
  uint32_t head_dim_padded() const { return (head_dim + 7) / 8 * 8; }
  uint64_t head_bytes() const { return uint64_t{capacity} * head_dim_padded() * element_bytes(); }
  uint64_t layer_bytes() const {
    return head_bytes() * kv_heads * sequences;
  } // of the keys, and again of the values
};

// Where one layer's keys and values are.
struct CacheRef {
  CacheLayout layout;
  BufferRef keys;
  BufferRef values;
};

} // namespace pumice
