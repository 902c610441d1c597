#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kernel/dispatch.h"
#include "shaders/common/cache_parts.h"

namespace pumice {

// Of keys and values: one for both, or that of the keys and that of the values, in those pairs that save
// memory. Sessions' files and processes that run a model together know them by their numbers.
enum class CacheType : uint32_t {
  f32,
  f16,
  q8_0,
  f16_q8_0,
  q8_0_f16,
  q4_0,
  q8_0_q4_0,
};
std::span<const CacheType> cache_types();
CacheType key_type(CacheType type);
CacheType value_type(CacheType type);
// Whether keys or values are whole numbers of few bits, with a scale for each 32.
bool is_scaled(CacheType type);
// Of two types that are for both; they must be a pair.
CacheType cache_type_of(CacheType keys, CacheType values);
const char* to_string(CacheType type); // "f16", "f16/q8_0"
// In the names of kernels: "f16", "f16_q8_0".
std::string cache_kernel(CacheType type);
// By its name, with a slash or a comma.
std::optional<CacheType> find_cache_type(std::string_view name);

// How a layer is divided where a kernel cannot reach all of its keys at once.
enum class CacheSplit : uint32_t {
  whole = CACHE_PARTS_NONE,
  positions = CACHE_PARTS_POSITIONS, // a part has some positions of all sequences
  sequences = CACHE_PARTS_SEQUENCES, // a part has some sequences
};

// A part of positions has a multiple of this many: no block of an attention kernel lies in two parts.
constexpr uint32_t cache_part_positions = 256;

// Positions of a page. No tile of an attention kernel lies in two pages.
constexpr uint32_t cache_page_positions = 64;

// Pages that hold so many positions.
constexpr uint32_t pages_for(uint32_t positions) {
  return positions / cache_page_positions + (positions % cache_page_positions > 0);
}

// Keys and values of one layer. Keys are stored in tiles of eight positions: eight lanes, one position each,
// load neighbouring memory. Values are stored one position after the other: lanes with neighbouring
// dimensions load neighbouring memory:
//   keys:   [sequence][kv_head][position / 8][head_dim / quad][position % 8][quad]
//   values: [sequence][kv_head][position][head_dim]
// A quad is 16 bytes and has as many elements as fit. head_dim is padded with zeros to head_dim_padded(), and
// positions to a multiple of 32.
// Where keys and values have two types, head_dim is padded for both.
//
// q8_0 stores 32 dimensions of a position as bytes and one 16-bit float (f16), their scale. The scales of
// eight positions are stored together, before their bytes:
//   keys:   [sequence][kv_head][position / 8][head_dim / 32] of
//             [position % 8] f16, then [2][position % 8][16] bytes
//   values: [sequence][kv_head][position / 8] of
//             [head_dim / 32][position % 8] f16, then [position % 8][head_dim] bytes
// q4_0 stores them as 16 bytes in place of 32. Byte i has dimension i in its lower half and dimension i + 16
// in its upper half, each with 8 added. There is no [2] then, and a position's bytes are 16 for each 32
// dimensions.
//
// With a window the cache is a ring: position p is stored at p % capacity and overwrites position p -
// capacity.
//
// Or the sequences have pages of one pool: a page is laid out as a sequence of cache_page_positions, and the
// step block says which page each of a sequence's positions lies in. So sequences can have the same pages.
struct CacheLayout {
  CacheType type = CacheType::f16;
  uint32_t sequences = 1;
  uint32_t capacity = 0; // positions of one sequence, a multiple of 32
  uint32_t kv_heads = 0;
  uint32_t head_dim = 0;
  uint32_t window = 0;          // not 0: a ring; tokens see at most this many positions, their own included
  bool values_are_keys = false; // values have no memory of their own: attention reads the keys again
  CacheSplit split = CacheSplit::whole;
  uint32_t part_size = 0;  // positions or sequences of each part; the last part may have fewer sequences
  uint32_t part_first = 0; // of a part's own layout: its first position or sequence
  uint32_t pages = 0;      // in the pool; 0: each sequence has memory of its own

  uint32_t head_dim_padded() const {
    const uint32_t unit = is_scaled(type) ? 32 : 8;
    return (head_dim + unit - 1) / unit * unit;
  }
  // What lies together: pages, or sequences, and how many positions each has.
  uint32_t stored_sequences() const { return pages ? pages : sequences; }
  uint32_t stored_positions() const { return pages ? cache_page_positions : capacity; }
  // Bytes of eight positions of a head: of the keys, and of the values.
  uint64_t key_tile_bytes() const { return tile_bytes(key_type(type)); }
  uint64_t value_tile_bytes() const { return tile_bytes(value_type(type)); }
  // Of the keys, and of the values, which may have none of their own.
  uint64_t key_bytes() const { return tiles() * key_tile_bytes(); }
  uint64_t value_bytes() const { return values_are_keys ? 0 : tiles() * value_tile_bytes(); }
  uint64_t key_and_value_bytes() const { return key_bytes() + value_bytes(); }
  uint64_t longer_bytes() const { return std::max(key_bytes(), value_bytes()); }

  uint32_t parts() const;
  // A part by itself. Its capacity or its sequences are its own.
  CacheLayout part(uint32_t index) const;
  // The same positions and sequences in parts of at most `range` bytes of keys, and of values, where one part
  // would have more. `beams`: sequences read each other's positions, so they stay together. A ring is never
  // divided by positions. Where there is no such division the layout stays whole. A pool is in no parts: what
  // would have more has none.
  CacheLayout divided(uint64_t range, bool beams) const;

  // The first position that cannot be stored.
  uint32_t position_limit() const {
    return window ? INT32_MAX : capacity + (split == CacheSplit::positions ? part_first : 0);
  }
  // Whether the cache still holds all earlier positions that a token at `position` may see, after all
  // positions before `written_end` have been written (by steps that ran ahead too).
  bool can_resume(uint32_t position, uint32_t written_end) const;

private:
  uint64_t tile_bytes(CacheType of) const {
    const uint64_t scales = is_scaled(of) ? head_dim_padded() / 32 * 16 : 0;
    const uint64_t bits = of == CacheType::f32    ? 32
                          : of == CacheType::f16  ? 16
                          : of == CacheType::q8_0 ? 8
                                                  : 4;
    return scales + head_dim_padded() * bits; // eight positions of so many bits
  }
  uint64_t tiles() const { return uint64_t{stored_positions()} / 8 * kv_heads * stored_sequences(); }
};

// Where keys and values are: the same place, if values are keys.
struct CachePlace {
  BufferRef keys;
  BufferRef values;
};

// One layer's cache.
struct CacheRef {
  CacheLayout layout;
  BufferRef keys; // of the first part, which mostly is all
  BufferRef values;
  std::vector<CachePlace> further = {}; // the other parts

  CachePlace place(uint32_t part) const { return part == 0 ? CachePlace{keys, values} : further[part - 1]; }
  std::vector<CacheRef> parts() const;
};

} // namespace pumice
