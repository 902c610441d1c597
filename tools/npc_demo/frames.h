#pragma once

#include <array>
#include <memory>
#include <optional>

#include "painter.h"

namespace npc {

// What the device took for a frame, by timestamps in the frame's own command buffers.
struct DeviceTimes {
  float scene_us = 0; // from the frame's begin until the scene is drawn
  float added_us =
      0; // from then until what Pumice adds has run; what ran while the scene was drawn is not in it
};

// What a frame needs of its own while the device draws it and the host already makes the next one.
class Frame {
public:
  Frame(const Device& device, VkRenderPass render_pass, VkExtent2D extent);
  ~Frame();
  Frame(const Frame&) = delete;
  Frame& operator=(const Frame&) = delete;

  VkCommandBuffer commands() const { return commands_; }
  VkSemaphore acquired() const { return acquired_; } // for a swapchain to signal
  const Picture& picture() const { return *picture_; }
  const Buffer& vertices() const { return vertices_; }
  void resize(VkRenderPass render_pass, VkExtent2D extent);

  // Waits until the device has finished the frame, where it was given one. The times, once.
  std::optional<DeviceTimes> wait();
  void begin();
  void scene_is_drawn();   // in the command buffer: what comes next is not the scene
  void addition_is_done(); // the same of what Pumice adds

  // Ends the command buffer and submits it. Semaphores may be null.
  void submit(VkSemaphore wait, VkSemaphore signal);
  // For work that is submitted on its own: submit_scene, then that work, then submit_end.
  void submit_scene(VkSemaphore wait, VkSemaphore signal);
  void submit_end();

private:
  enum Stamp : uint32_t { begun, drawn, added, stamp_count };

  void begin(VkCommandBuffer commands);
  void stamp(VkCommandBuffer commands, Stamp which);
  void submit(VkCommandBuffer commands, VkSemaphore wait, VkSemaphore signal, VkFence fence);

  const Device& device_;
  std::unique_ptr<Picture> picture_;
  Buffer vertices_;
  VkCommandPool pool_ = VK_NULL_HANDLE;
  VkCommandBuffer commands_ = VK_NULL_HANDLE;
  VkCommandBuffer end_ = VK_NULL_HANDLE; // a timestamp after work that was submitted on its own
  VkQueryPool stamps_ = VK_NULL_HANDLE;
  VkSemaphore acquired_ = VK_NULL_HANDLE;
  VkFence finished_ = VK_NULL_HANDLE;
  bool under_way_ = false;
};

} // namespace npc
