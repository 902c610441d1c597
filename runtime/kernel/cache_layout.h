#pragma once

#include <cstdint>

#include "kernel/dispatch.h"

namespace pumice {

enum class CacheType : uint32_t { f32, f16, q8_0 };
const char* to_string(CacheType type);

// Keys and values of one layer. Keys lie in tiles of eight positions, so that eight lanes, a position each,
// load neighbouring memory; values lie a position after the other, so that lanes, some dimensions each, do:
//   keys:   [sequence][kv_head][position / 8][head_dim / chunk][position % 8][chunk]
//   values: [sequence][kv_head][position][head_dim]
// A chunk has as many elements as fit 16 bytes. // head_dim is padded with zeros to head_dim_padded() and
// positions to a multiple of 32.
//
// q8_0 keeps 32 dimensions of a position as bytes and a half that scales them. The scales of eight positions
// lie together, before the bytes they belong to:
//   keys:   [sequence][kv_head][position / 8][head_dim / 32] of
//             [position % 8] halves, then [2][position % 8][16] bytes
//   values: [sequence][kv_head][position / 8] of
//             [head_dim / 32][position % 8] halves, then [position % 8][head_dim] bytes
//
// Where a window is set the cache is a ring: position p lies where p % capacity would, over the position
// `capacity` before it.
struct CacheLayout {
  CacheType type = CacheType::f16;
  uint32_t sequences = 1;
  uint32_t capacity = 0; // positions of one sequence, a multiple of 32
  uint32_t kv_heads = 0;
  uint32_t head_dim = 0;
  uint32_t window = 0; // not 0: a ring, for tokens that see at most this many positions, their own included

  uint32_t element_bytes() const { return type == CacheType::f32 ? 4 : type == CacheType::f16 ? 2 : 1; }
  uint32_t head_dim_padded() const {
    const uint32_t unit = type == CacheType::q8_0 ? 32 : 8;
    return (head_dim + unit - 1) / unit * unit;
  }
  // Of eight positions of a head, as keys or as values.
  uint64_t tile_bytes() const {
    const uint64_t scales = type == CacheType::q8_0 ? head_dim_padded() / 32 * 16 : 0;
    return scales + uint64_t{8} * head_dim_padded() * element_bytes();
  }
  uint64_t head_bytes() const { return capacity / 8 * tile_bytes(); }
  uint64_t layer_bytes() const {
    return head_bytes() * kv_heads * sequences;
  } // of the keys, and again of the values

  // A position from which on none can be stored.
  uint32_t position_limit() const { return window ? INT32_MAX : capacity; }
  // Whether a token at `position` finds all earlier positions that it may see, where those before
  // `written_end` have been written, steps that ran ahead included.
  bool can_resume(uint32_t position, uint32_t written_end) const;
};

// Where one layer's keys and values are.
struct CacheRef {
  CacheLayout layout;
  BufferRef keys;
  BufferRef values;
};

} // namespace pumice
