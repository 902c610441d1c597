#include "step/hop_places.h"

namespace pumice {

Result<std::shared_ptr<HopPlaces>> HopPlaces::create(uint64_t bytes, uint64_t alignment,
                                                     std::vector<uint64_t> layout) {
  std::shared_ptr<HopPlaces> places(new HopPlaces(std::move(layout)));
  for (std::shared_ptr<HostMemory>& memory : places->memory_) {
    PUMICE_TRY(memory, HostMemory::create(bytes, alignment));
  }
  return places;
}

Result<std::vector<Buffer>> HopPlaces::import(const std::shared_ptr<Device>& device) const {
  std::vector<Buffer> buffers;
  for (const std::shared_ptr<HostMemory>& memory : memory_) {
    PUMICE_TRY(Buffer buffer, Buffer::import(device, memory, "hop"));
    buffers.push_back(std::move(buffer));
  }
  return buffers;
}

std::optional<uint32_t> HopPlaces::take() {
  if (!accepted_ || taken_[next_].exchange(true)) return std::nullopt;
  const uint32_t place = next_;
  next_ = (next_ + 1) % count;
  return place;
}

} // namespace pumice
