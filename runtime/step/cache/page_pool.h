#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace pumice {

// Counts who has the pages of a pool (kernel/cache_layout.h). A page that nobody has is free.
class PagePool {
public:
  explicit PagePool(uint32_t pages = 0);

  uint32_t pages() const { return static_cast<uint32_t>(holders_.size()); }
  uint32_t free() const { return static_cast<uint32_t>(free_.size()); }
  // Whether another one has it too: what is to be written in it goes into a copy.
  bool shared(uint32_t page) const { return holders_[page] > 1; }

  // Takes a free page; there must be one.
  uint32_t take();
  // One more has these pages, which somebody has.
  void hold(std::span<const uint32_t> pages);
  // One has them no longer.
  void drop(std::span<const uint32_t> pages);

private:
  std::vector<uint32_t> holders_; // of each page
  std::vector<uint32_t> free_;
};

} // namespace pumice
