#include "session/step_ring.h"

#include <cstring>

namespace pumice {

Result<StepRing> StepRing::create(const std::shared_ptr<Device>& device, const StepLayout& layout,
                                  const Buffer& step_block) {
  StepRing ring;
  ring.device_ = device;
  ring.place_bytes_ = place_bytes(layout);
  PUMICE_TRY(ring.staging_, Buffer::create(device, places * ring.place_bytes_, MemoryUse::upload));
  std::memset(ring.staging_.mapped().data(), 0, ring.staging_.mapped().size());
  PUMICE_TRY(ring.commands_, Commands::create(device));
  for (uint32_t place = 0; place < places; ++place) {
    PUMICE_CHECK(ring.commands_.begin());
    ring.commands_.barrier(); // against the steps before, which read the block
    ring.commands_.copy(ring.staging_, place * ring.place_bytes_, step_block, 0, ring.place_bytes_);
    ring.commands_.barrier();
    PUMICE_CHECK(ring.commands_.end());
  }
  return ring;
}

Result<std::span<uint32_t>> StepRing::begin() {
  if (!pending_) current_ = (current_ + 1) % places; // else the step was never submitted
  PUMICE_CHECK(device_->wait(done_[current_]));
  pending_ = true;
  std::byte* place = staging_.mapped().data() + current_ * place_bytes_;
  return std::span(reinterpret_cast<uint32_t*>(place), place_bytes_ / 4);
}

void StepRing::submitted(uint64_t value) {
  if (!pending_) return;
  done_[current_] = value;
  pending_ = false;
}

} // namespace pumice
