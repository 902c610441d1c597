#pragma once

#include <cstdint>

namespace pumice {

// The next multiple of `alignment`, which need be no power of two.
constexpr uint64_t align(uint64_t value, uint64_t alignment) {
  return (value + alignment - 1) / alignment * alignment;
}

} // namespace pumice
