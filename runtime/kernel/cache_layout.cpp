#include "kernel/cache_layout.h"

#include <algorithm>

namespace pumice {

const char* to_string(CacheType type) {
  switch (type) {
  case CacheType::f32:
    return "f32";
  case CacheType::f16:
    return "f16";
  case CacheType::q8_0:
    return "q8_0";
  }
  return "unknown";
}

uint32_t CacheLayout::parts() const {
  if (split == CacheSplit::whole) return 1;
  const uint32_t all = split == CacheSplit::positions ? capacity : sequences;
  return (all + part_size - 1) / part_size;
}

CacheLayout CacheLayout::part(uint32_t index) const {
  CacheLayout part = *this;
  if (split == CacheSplit::whole) return part;
  part.part_first = index * part_size;
  if (split == CacheSplit::positions) part.capacity = part_size;
  if (split == CacheSplit::sequences) part.sequences = std::min(part_size, sequences - part.part_first);
  return part;
}

CacheLayout CacheLayout::divided(uint64_t range, bool beams) const {
  CacheLayout layout = *this;
  if (layer_bytes() <= range) return layout;
  // Even parts, none larger than fits.
  const auto even = [](uint64_t all, uint64_t fit) {
    const uint64_t parts = (all + fit - 1) / fit;
    return (all + parts - 1) / parts;
  };
  const uint64_t sequence_bytes = layer_bytes() / sequences;
  if (!beams && sequence_bytes <= range) {
    layout.split = CacheSplit::sequences;
    layout.part_size = static_cast<uint32_t>(even(sequences, range / sequence_bytes));
    return layout;
  }
  const uint64_t units = (capacity + cache_part_positions - 1) / cache_part_positions;
  const uint64_t fit = range / (uint64_t{cache_part_positions} / 8 * tile_bytes() * kv_heads * sequences);
  if (window > 0 || fit == 0) return layout;
  layout.split = CacheSplit::positions;
  const uint64_t each = even(units, fit);
  layout.part_size = static_cast<uint32_t>(each * cache_part_positions);
  layout.capacity = static_cast<uint32_t>((units + each - 1) / each * layout.part_size);
  return layout;
}

std::vector<CacheRef> CacheRef::parts() const {
  std::vector<CacheRef> parts;
  for (uint32_t i = 0; i < layout.parts(); ++i) {
    const CachePlace where = place(i);
    parts.push_back({layout.part(i), where.keys, where.values});
  }
  return parts;
}

bool CacheLayout::can_resume(uint32_t position, uint32_t written_end) const {
  if (position > written_end) return false;
  const uint32_t first = window && position >= window ? position - window + 1 : 0;
  // Nothing has been written over the first one.
  return window == 0 || first == position || written_end <= uint64_t{first} + capacity;
}

} // namespace pumice
