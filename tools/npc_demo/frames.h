#pragma once

#include <array>
#include <memory>
#include <optional>

#include "drawing/control.h"
#include "drawing/painter.h"

namespace npc {

// The device times of a frame, from timestamps in its command buffers.
struct DeviceTimes {
  float scene_us = 0;   // from the beginning of the frame until the scene is drawn
  float added_us = 0;   // of Pumice's slice; without what ran while the scene was drawn
  float control_us = 0; // of the control, half of which runs before the slice and half after it
};

// The objects of one frame. There are two frames: the device draws one while the CPU records the other.
class Frame {
public:
  // With `control`, which may be null, it runs before and after the slice.
  Frame(const Device& device, VkRenderPass render_pass, VkExtent2D extent, const Control* control);
  ~Frame();
  Frame(const Frame&) = delete;
  Frame& operator=(const Frame&) = delete;

  VkCommandBuffer commands() const { return commands_; }
  VkSemaphore acquired() const { return acquired_; } // for a swapchain to signal
  const Picture& picture() const { return *picture_; }
  const Buffer& vertices() const { return vertices_; }
  void resize(VkRenderPass render_pass, VkExtent2D extent);

  // Waits until the device has finished the frame, if it was submitted. Returns the times of each frame once.
  std::optional<DeviceTimes> wait();
  // `control_us`: the length of the control.
  void begin(double control_us);
  void scene_is_drawn();   // marks the end of the scene in the command buffer
  void addition_is_done(); // marks the end of Pumice's slice in the command buffer

  // Ends the command buffer and submits it. Semaphores may be null.
  void submit(VkSemaphore wait, VkSemaphore signal);
  // If Pumice submits its slice itself: call submit_scene, submit the slice, then call submit_end.
  void submit_scene(VkSemaphore wait, VkSemaphore signal);
  void submit_end();

private:
  enum Stamp : uint32_t { begun, drawn, added, ready, checked, stamp_count }; // the last two: with a control

  void begin(VkCommandBuffer commands);
  void stamp(VkCommandBuffer commands, Stamp which);
  void run_control(VkCommandBuffer commands, Stamp done);
  uint32_t stamp_count_used() const { return control_ ? stamp_count : ready; }
  void submit(VkCommandBuffer commands, VkSemaphore wait, VkSemaphore signal, VkFence fence);

  const Device& device_;
  const Control* control_;
  double control_us_ = 0;
  std::unique_ptr<Picture> picture_;
  Buffer vertices_;
  VkCommandPool pool_ = VK_NULL_HANDLE;
  VkCommandBuffer commands_ = VK_NULL_HANDLE;
  VkCommandBuffer end_ = VK_NULL_HANDLE; // has the timestamp after a slice that Pumice submitted
  VkQueryPool stamps_ = VK_NULL_HANDLE;
  VkSemaphore acquired_ = VK_NULL_HANDLE;
  VkFence finished_ = VK_NULL_HANDLE;
  bool under_way_ = false;
};

} // namespace npc
