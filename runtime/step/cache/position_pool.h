#pragma once

#include <cstdint>
#include <map>
#include <optional>

#include "step/runner.h"

namespace pumice {

// Allocates ranges of positions in the caches of the encoder's inputs. Ranges begin at multiples of `block`.
class PositionPool {
public:
  PositionPool(uint32_t capacity, uint32_t block) : capacity_(capacity), block_(block) {}

  // Takes the first free range of `count` positions. Returns nothing if no free range is long enough.
  std::optional<InputRange> take(uint32_t count);
  void release(const InputRange& range) { taken_.erase(range.first); }
  void clear() { taken_.clear(); }

private:
  const uint32_t capacity_;
  const uint32_t block_;
  std::map<uint32_t, uint32_t> taken_; // first to end
};

} // namespace pumice
