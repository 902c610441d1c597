#pragma once

#include <span>
#include <vector>

#include "gpu/buffer.h"
#include "kernel/cache_layout.h"
#include "kernel/state_layout.h"
#include "recording/prepared_plan.h"

namespace pumice {

// Bytes in one of a session's cache allocations.
struct CacheRange {
  uint32_t allocation = 0;
  uint64_t offset = 0;
  uint64_t bytes = 0;
};

// How many positions of a layer hold data, if the first `cached` positions count and all before `written_end`
// were written. A ring that has wrapped around is full.
uint32_t positions_in_use(uint32_t capacity, uint32_t cached, uint32_t written_end);

// Where the first `positions` positions of a sequence lie in a layer's cache: the keys of each head, then the
// values. Positions are stored in whole tiles, one after the other, so the bytes do not depend on the
// capacity. `pages`: the sequence's, where the layer has a pool.
std::vector<CacheRange> cache_ranges(const CacheRef& cache, uint32_t sequence, uint32_t positions,
                                     std::span<const uint32_t> pages = {});

// Where the state of a sequence before `position` lies. Before the first position there is none.
std::vector<CacheRange> state_ranges(const StateRef& state, uint32_t sequence, uint32_t position);

// Where a page lies in a layer's pool: the keys of all heads, then the values.
std::vector<CacheRange> page_ranges(const CacheRef& cache, uint32_t page);

// Makes copies on the device, in one submission, and waits for it. What was submitted before is done by then.
Status copy_and_wait(const std::shared_ptr<Device>& device, std::span<const BufferCopy> copies);

struct BufferPiece {
  const Buffer* buffer = nullptr;
  uint64_t offset = 0, bytes = 0;
};

// Copies between the host and buffers on the device: directly if they are mapped, otherwise through a staging
// buffer, as many pieces at once as fit there. Nothing else may use those bytes meanwhile.
class CacheTransfer {
public:
  explicit CacheTransfer(std::shared_ptr<Device> device) : device_(std::move(device)) {}
  Status read(std::span<const BufferPiece> from, std::span<std::byte> to);
  Status write(std::span<const std::byte> from, std::span<const BufferPiece> to);
  Status write(std::span<const std::byte> from, const Buffer& to, uint64_t offset);

private:
  Status stage();
  template <class Copy, class Whole>
  Status in_parts(std::span<const BufferPiece> pieces, const Copy& copy, const Whole& whole);

  std::shared_ptr<Device> device_;
  Buffer staging_;
};

} // namespace pumice
