#pragma once

#include <array>
#include <span>

#include "gpu/commands.h"
#include "kernel/step_layout.h"
#include "recording/completion.h"

namespace pumice {

// A ring of two places that the host writes the rows of coming steps to while earlier steps still run. A copy
// at the beginning of a step moves them into the step block, and makes the counters behind it zeros: a step
// that was cancelled may have left others. Used by one thread at a time.
class StepRing {
public:
  static constexpr uint32_t places = 2;
  // The part of the step block that each step replaces: header, rows and details. The rest stays from step to
  // step.
  static uint64_t place_bytes(const StepLayout& layout) { return uint64_t{layout.sequence_quads()} * 16; }

  // Its places, then zeros for the counters.
  static uint64_t bytes(const StepLayout& layout) {
    return places * place_bytes(layout) + StepLayout::counters * sizeof(uint32_t);
  }

  static Result<StepRing> create(const std::shared_ptr<Device>& device, const StepLayout& layout,
                                 const Buffer& step_block);
  StepRing() = default;

  // Tells when the place of the next step is free. Wait for it before begin().
  const Completion& next_place() const { return free_[pending_ ? current_ : (current_ + 1) % places]; }
  // The place of the next step, with the layout of the beginning of the step block.
  std::span<uint32_t> begin();
  // The copy to submit before the step. Empty if begin() was not called since the last step: then the device
  // has written the step itself.
  std::span<const VkCommandBuffer> pending() const {
    return pending_ ? commands_.buffers().subspan(current_, 1) : std::span<const VkCommandBuffer>();
  }
  // Records the same copy into other commands.
  void record(Commands& commands) const;
  // Call it once the step is submitted; `done` tells when it is done, which frees its place.
  void submitted(const Completion& done);

  uint64_t memory_bytes() const { return staging_.memory_bytes(); }

private:
  void record_copy(Commands& commands, uint32_t place) const;

  uint64_t place_bytes_ = 0, counters_begin_ = 0;
  Buffer staging_;
  VkBuffer step_block_ = VK_NULL_HANDLE;
  Commands commands_; // a copy for each place
  std::array<Completion, places> free_;
  uint32_t current_ = 0;
  bool pending_ = false;
};

} // namespace pumice
