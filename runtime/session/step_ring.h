#pragma once

#include <array>
#include <span>

#include "gpu/commands.h"
#include "kernel/step_layout.h"

namespace pumice {

// Where the host puts the rows of steps while those before them still run: two places in turn, from which the
// device copies them into the step block when it is their time. Used by one thread.
class StepRing {
public:
  static constexpr uint32_t places = 2;
  // Header, rows and details: what a step brings with it. The rest of the block stays from step to step.
  static uint64_t place_bytes(const StepLayout& layout) { return uint64_t{layout.sequence_quads()} * 16; }

  static Result<StepRing> create(const std::shared_ptr<Device>& device, const StepLayout& layout,
                                 const Buffer& step_block);
  StepRing() = default;

  // A place for the next step, as the block begins. Waits for the last step but one if that came from here.
  Result<std::span<uint32_t>> begin();
  // What has to be submitted before the step that begin() was called for; nothing where that step is under
  // way or the device has put it in place itself.
  std::span<const VkCommandBuffer> pending() const {
    return pending_ ? commands_.buffers().subspan(current_, 1) : std::span<const VkCommandBuffer>();
  }
  // That pending() has been, up to a value of the device's timeline.
  void submitted(uint64_t value);

  uint64_t memory_bytes() const { return staging_.memory_bytes(); }

private:
  std::shared_ptr<Device> device_;
  uint64_t place_bytes_ = 0;
  Buffer staging_;
  Commands commands_; // a copy for each place
  std::array<uint64_t, places> done_ = {};
  uint32_t current_ = 0;
  bool pending_ = false;
};

} // namespace pumice
