#pragma once

#include <span>
#include <vector>

#include "gpu/buffer.h"
#include "kernel/cache_layout.h"

namespace pumice {

// Bytes in one of a session's cache allocations.
struct CacheRange {
  uint32_t allocation = 0;
  uint64_t offset = 0;
  uint64_t bytes = 0;
};

// Positions of a layer that hold something once its first `cached` positions count and all before
// `written_end` were written: a ring that has gone round is full.
uint32_t positions_in_use(uint32_t capacity, uint32_t cached, uint32_t written_end);

// Where one sequence's first `positions` positions of a layer are: the keys of each head, then the values.
// Whole tiles of positions lie one after the other, so the bytes are the same whatever the capacity is.
std::vector<CacheRange> cache_ranges(const CacheRef& cache, uint32_t sequence, uint32_t positions);

// Copies between the host and a device's buffer: straight where the host can reach it, else through a staging
// buffer. Nothing else may use those bytes meanwhile.
class CacheTransfer {
public:
  explicit CacheTransfer(std::shared_ptr<Device> device) : device_(std::move(device)) {}
  Status read(const Buffer& from, uint64_t offset, std::span<std::byte> to);
  Status write(std::span<const std::byte> from, const Buffer& to, uint64_t offset);

private:
  Status stage();

  std::shared_ptr<Device> device_;
  Buffer staging_;
};

} // namespace pumice
