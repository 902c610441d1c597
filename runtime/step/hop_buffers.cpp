#include "step/hop_buffers.h"

namespace pumice {

Result<std::shared_ptr<HopBuffers>> HopBuffers::create(uint64_t bytes, uint64_t alignment,
                                                       std::vector<uint64_t> layout) {
  std::shared_ptr<HopBuffers> places(new HopBuffers(std::move(layout)));
  for (std::shared_ptr<HostMemory>& memory : places->memory_) {
    PUMICE_TRY(memory, HostMemory::create(bytes, alignment));
  }
  return places;
}

Result<std::vector<Buffer>> HopBuffers::import(const std::shared_ptr<Device>& device) const {
  std::vector<Buffer> buffers;
  for (const std::shared_ptr<HostMemory>& memory : memory_) {
    PUMICE_TRY(Buffer buffer, Buffer::import(device, memory, "hop"));
    buffers.push_back(std::move(buffer));
  }
  return buffers;
}

std::optional<uint32_t> HopBuffers::take() {
  if (!accepted_ || taken_[next_].exchange(true)) return std::nullopt;
  const uint32_t place = next_;
  next_ = (next_ + 1) % count;
  return place;
}

} // namespace pumice
