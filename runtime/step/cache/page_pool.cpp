#include "step/cache/page_pool.h"

#include <cassert>

namespace pumice {

PagePool::PagePool(uint32_t pages) : holders_(pages, 0) {
  for (uint32_t page = pages; page > 0; --page) free_.push_back(page - 1); // the first one goes first
}

uint32_t PagePool::take() {
  assert(!free_.empty());
  const uint32_t page = free_.back();
  free_.pop_back();
  holders_[page] = 1;
  return page;
}

void PagePool::hold(std::span<const uint32_t> pages) {
  for (const uint32_t page : pages) {
    assert(holders_[page] > 0);
    ++holders_[page];
  }
}

void PagePool::drop(std::span<const uint32_t> pages) {
  for (const uint32_t page : pages) {
    assert(holders_[page] > 0);
    if (--holders_[page] == 0) free_.push_back(page);
  }
}

} // namespace pumice
