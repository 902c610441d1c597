#pragma once

#include <array>
#include <span>

#include "gpu/commands.h"
#include "kernel/step_layout.h"
#include "recording/completion.h"

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

  // When the place for the next step is free. That has to be over before begin().
  const Completion& next_place() const { return free_[pending_ ? current_ : (current_ + 1) % places]; }
  // A place for the next step, as the block begins.
  std::span<uint32_t> begin();
  // What has to be submitted before the step that begin() was called for; nothing where that step is under
  // way or the device has put it in place itself.
  std::span<const VkCommandBuffer> pending() const {
    return pending_ ? commands_.buffers().subspan(current_, 1) : std::span<const VkCommandBuffer>();
  }
  // The same, recorded into other commands.
  void record(Commands& commands) const;
  // The caller has submitted it, and it is done then.
  void submitted(const Completion& done);

  uint64_t memory_bytes() const { return staging_.memory_bytes(); }

private:
  void record_copy(Commands& commands, uint32_t place) const;

  uint64_t place_bytes_ = 0;
  Buffer staging_;
  VkBuffer step_block_ = VK_NULL_HANDLE;
  Commands commands_; // a copy for each place
  std::array<Completion, places> free_;
  uint32_t current_ = 0;
  bool pending_ = false;
};

} // namespace pumice
