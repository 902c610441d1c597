#pragma once

#include <optional>
#include <vector>

#include "picture.h"

namespace npc {

// The window's images. A frame is drawn to a picture and copied to one of them, whatever its size and format.
class Swapchain {
public:
  // The surface is the caller's, and outlives it.
  Swapchain(const Device& device, VkSurfaceKHR surface, VkExtent2D extent);
  ~Swapchain();
  Swapchain(const Swapchain&) = delete;
  Swapchain& operator=(const Swapchain&) = delete;

  // The next image, free once `acquired` is signalled. Nothing where the images no longer fit the window:
  // then make_again() is needed before anything else.
  std::optional<uint32_t> acquire(VkSemaphore acquired);
  // Records the copy of a picture to an image; `drawn(image)` is to be signalled after it.
  void copy(VkCommandBuffer commands, const Picture& picture, uint32_t image) const;
  VkSemaphore drawn(uint32_t image) const { return drawn_[image]; }
  // Shows the image once that is signalled. False: make_again() is needed.
  bool show(uint32_t image);
  // Waits for the device. False where there is nothing to show to, as while the window is minimised.
  bool make_again(VkExtent2D extent);

private:
  void destroy_semaphores();

  const Device& device_;
  VkSurfaceKHR surface_;
  VkSwapchainKHR swapchain_ = VK_NULL_HANDLE;
  VkExtent2D extent_{};
  std::vector<VkImage> images_;
  std::vector<VkSemaphore> drawn_;
};

} // namespace npc
