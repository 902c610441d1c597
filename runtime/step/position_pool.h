#pragma once

#include <cstdint>
#include <map>
#include <optional>

#include "step/runner.h"

namespace pumice {

// Which positions of the encoder's caches are taken. Ranges begin at multiples of a block.
class PositionPool {
public:
  PositionPool(uint32_t capacity, uint32_t block) : capacity_(capacity), block_(block) {}

  // The first free range of so many positions; nothing where none is long enough.
  std::optional<InputRange> take(uint32_t count);
  void release(const InputRange& range) { taken_.erase(range.first); }
  void clear() { taken_.clear(); }

private:
  const uint32_t capacity_;
  const uint32_t block_;
  std::map<uint32_t, uint32_t> taken_; // first to end
};

} // namespace pumice
