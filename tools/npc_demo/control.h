#pragma once

#include "resources.h"

namespace npc {

// A dispatch that takes about half a millisecond while the device has nothing else to do. In a frame, it
// shows by how much other programs slow the device down.
class Control {
public:
  // Finds out how much work takes so long. The device must have timestamps.
  explicit Control(const Device& device);
  ~Control();
  Control(const Control&) = delete;
  Control& operator=(const Control&) = delete;

  // Outside of a render pass. Nothing else runs at the same time.
  void record(VkCommandBuffer commands) const;

private:
  void make_descriptors();
  void make_pipeline();
  double measured_us() const;

  const Device& device_;
  Buffer result_;
  uint32_t rounds_ = 64;
  VkDescriptorSetLayout set_layout_ = VK_NULL_HANDLE;
  VkDescriptorPool descriptor_pool_ = VK_NULL_HANDLE;
  VkDescriptorSet set_ = VK_NULL_HANDLE;
  VkPipelineLayout layout_ = VK_NULL_HANDLE;
  VkPipeline pipeline_ = VK_NULL_HANDLE;
  VkQueryPool stamps_ = VK_NULL_HANDLE;
};

} // namespace npc
