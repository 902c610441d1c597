#pragma once

#include "resources.h"

namespace npc {

// A dispatch that takes a given time while the device has nothing else to do. In a frame, it shows by how
// much other programs slow the device down.
class Control {
public:
  // Finds out how much work takes how long. The device must have timestamps.
  explicit Control(const Device& device);
  ~Control();
  Control(const Control&) = delete;
  Control& operator=(const Control&) = delete;

  // Records work for about `us` microseconds, outside of a render pass. Nothing else runs at the same time.
  void record(VkCommandBuffer commands, double us) const;

private:
  void make_pipeline();
  void record_rounds(VkCommandBuffer commands, uint32_t rounds) const;
  double measured_us(uint32_t rounds) const;

  const Device& device_;
  Buffer result_;
  PipelineInput input_;
  double rounds_per_us_ = 0;
  VkPipeline pipeline_ = VK_NULL_HANDLE;
  VkQueryPool stamps_ = VK_NULL_HANDLE;
};

} // namespace npc
