#include "step/cache/position_pool.h"

namespace pumice {

std::optional<InputRange> PositionPool::take(uint32_t count) {
  uint64_t first = 0;
  for (const auto& [begin, end] : taken_) {
    if (first + count <= begin) break;
    first = (uint64_t{end} + block_ - 1) / block_ * block_;
  }
  if (first + count > capacity_) return {};
  const InputRange range{static_cast<uint32_t>(first), static_cast<uint32_t>(first + count)};
  taken_.emplace(range.first, range.end);
  return range;
}

} // namespace pumice
