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
// capacity.
std::vector<CacheRange> cache_ranges(const CacheRef& cache, uint32_t sequence, uint32_t positions);

// Where the state of a sequence before `position` lies. Before the first position there is none.
std::vector<CacheRange> state_ranges(const StateRef& state, uint32_t sequence, uint32_t position);

// Makes copies on the device, in one submission, and waits for it. What was submitted before is done by then.
Status copy_and_wait(const std::shared_ptr<Device>& device, std::span<const BufferCopy> copies);

// Copies between the host and a buffer on the device: directly if the buffer is mapped, otherwise through a
// staging buffer. Nothing else may use those bytes meanwhile.
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
