#include "step/cache/caches.h"

#include <atomic>

namespace pumice {

namespace {

std::atomic<uint32_t> caches_made = 0;

} // namespace

Caches::Caches(SessionMemory memory) : id_(++caches_made), memory_(std::move(memory)) {}

Result<std::shared_ptr<const Caches>> Caches::create(const std::shared_ptr<Device>& device,
                                                     SessionMemory memory) {
  std::shared_ptr<Caches> caches(new Caches(std::move(memory)));
  for (uint64_t bytes : caches->memory_.cache_allocation_bytes) {
    PUMICE_TRY(Buffer allocation, Buffer::create(device, bytes, MemoryUse::device, "cache"));
    caches->allocations_.push_back(std::move(allocation));
  }
  return std::shared_ptr<const Caches>(std::move(caches));
}

uint64_t Caches::memory_bytes() const {
  uint64_t sum = 0;
  for (const Buffer& allocation : allocations_) sum += allocation.memory_bytes();
  return sum;
}

} // namespace pumice
