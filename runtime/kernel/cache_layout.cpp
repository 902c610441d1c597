#include "kernel/cache_layout.h"

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

bool CacheLayout::can_resume(uint32_t position, uint32_t written_end) const {
  if (position > written_end) return false;
  const uint32_t first = window && position >= window ? position - window + 1 : 0;
  // Nothing has been written over the first one.
  return window == 0 || first == position || written_end <= uint64_t{first} + capacity;
}

} // namespace pumice
