#include "kernel/cache_layout.h"

#include <algorithm>

namespace pumice {

namespace {

struct NamedType {
  CacheType keys, values;
  const char* name;
};

// By their numbers.
constexpr NamedType named_types[] = {
    {CacheType::f32, CacheType::f32, "f32"},         {CacheType::f16, CacheType::f16, "f16"},
    {CacheType::q8_0, CacheType::q8_0, "q8_0"},      {CacheType::f16, CacheType::q8_0, "f16/q8_0"},
    {CacheType::q8_0, CacheType::f16, "q8_0/f16"},   {CacheType::q4_0, CacheType::q4_0, "q4_0"},
    {CacheType::q8_0, CacheType::q4_0, "q8_0/q4_0"},
};

constexpr CacheType all_types[] = {CacheType::f32,      CacheType::f16,      CacheType::q8_0,
                                   CacheType::f16_q8_0, CacheType::q8_0_f16, CacheType::q4_0,
                                   CacheType::q8_0_q4_0};

const NamedType& named(CacheType type) {
  return named_types[static_cast<uint32_t>(type)];
}

} // namespace

std::span<const CacheType> cache_types() {
  return all_types;
}

CacheType key_type(CacheType type) {
  return named(type).keys;
}

CacheType value_type(CacheType type) {
  return named(type).values;
}

bool is_scaled(CacheType type) {
  const auto few_bits = [](CacheType of) { return of == CacheType::q8_0 || of == CacheType::q4_0; };
  return few_bits(key_type(type)) || few_bits(value_type(type));
}

CacheType cache_type_of(CacheType keys, CacheType values) {
  return *std::ranges::find_if(
      all_types, [&](CacheType type) { return key_type(type) == keys && value_type(type) == values; });
}

const char* to_string(CacheType type) {
  return static_cast<uint32_t>(type) < cache_types().size() ? named(type).name : "unknown";
}

std::string cache_kernel(CacheType type) {
  std::string name = to_string(type);
  std::ranges::replace(name, '/', '_');
  return name;
}

std::optional<CacheType> find_cache_type(std::string_view name) {
  std::string with_slash(name);
  std::ranges::replace(with_slash, ',', '/');
  for (const CacheType type : all_types) {
    const std::string both = std::string(to_string(key_type(type))) + "/" + to_string(value_type(type));
    if (with_slash == to_string(type) || with_slash == both) return type;
  }
  return {};
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
  if (longer_bytes() <= range) return layout;
  if (pages > 0) {
    layout.pages = 0;
    return layout.divided(range, beams);
  }
  // Even parts, none larger than fits.
  const auto even = [](uint64_t all, uint64_t fit) {
    const uint64_t parts = (all + fit - 1) / fit;
    return (all + parts - 1) / parts;
  };
  const uint64_t sequence_bytes = longer_bytes() / sequences;
  if (!beams && sequence_bytes <= range) {
    layout.split = CacheSplit::sequences;
    layout.part_size = static_cast<uint32_t>(even(sequences, range / sequence_bytes));
    return layout;
  }
  const uint64_t units = (capacity + cache_part_positions - 1) / cache_part_positions;
  const uint64_t fit = range / (longer_bytes() / (capacity / 8) * (cache_part_positions / 8));
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
