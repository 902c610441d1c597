#include "step/cache/step_ring.h"

#include <cstring>

namespace pumice {

Result<StepRing> StepRing::create(const std::shared_ptr<Device>& device, const StepLayout& layout,
                                  const Buffer& step_block) {
  StepRing ring;
  ring.place_bytes_ = place_bytes(layout);
  ring.counters_begin_ = layout.counters_begin();
  ring.step_block_ = step_block.handle();
  PUMICE_TRY(ring.staging_, Buffer::create(device, bytes(layout), MemoryUse::upload, "step staging"));
  std::memset(ring.staging_.mapped().data(), 0, ring.staging_.mapped().size());
  PUMICE_TRY(ring.commands_, Commands::create(device, "step copy"));
  for (uint32_t place = 0; place < places; ++place) {
    PUMICE_CHECK(ring.commands_.begin());
    ring.record_copy(ring.commands_, place);
    PUMICE_CHECK(ring.commands_.end());
  }
  return ring;
}

void StepRing::record_copy(Commands& commands, uint32_t place) const {
  const VkBufferCopy regions[] = {
      {place * place_bytes_, 0, place_bytes_},
      {places * place_bytes_, counters_begin_, StepLayout::counters * sizeof(uint32_t)}};
  commands.barrier(); // the steps before read the block
  commands.copy(staging_.handle(), step_block_, regions);
  commands.barrier();
}

std::span<uint32_t> StepRing::begin() {
  if (!pending_)
    current_ =
        (current_ + 1) % places; // otherwise the last step was not submitted, and its place is used again
  pending_ = true;
  std::byte* place = staging_.mapped().data() + current_ * place_bytes_;
  return std::span(reinterpret_cast<uint32_t*>(place), place_bytes_ / 4);
}

void StepRing::record(Commands& commands) const {
  if (pending_) record_copy(commands, current_);
}

void StepRing::submitted(const Completion& done) {
  if (!pending_) return;
  free_[current_] = done;
  pending_ = false;
}

} // namespace pumice
