#pragma once

#include <optional>
#include <vector>

#include "drawing/picture.h"

namespace npc {

// The images of the window. A frame is drawn to a Picture, which is copied to one of them and converted.
class Swapchain {
public:
  // The caller owns the surface, which must outlive the swapchain.
  Swapchain(const Device& device, VkSurfaceKHR surface, VkExtent2D extent);
  ~Swapchain();
  Swapchain(const Swapchain&) = delete;
  Swapchain& operator=(const Swapchain&) = delete;

  // The index of the next image, which can be written when `acquired` is signalled. Empty if the images no
  // longer fit the window; then make_again() must be called.
  std::optional<uint32_t> acquire(VkSemaphore acquired);
  // Records the copy of a picture to an image. The submission must signal `drawn(image)`.
  void copy(VkCommandBuffer commands, const Picture& picture, uint32_t image) const;
  VkSemaphore drawn(uint32_t image) const { return drawn_[image]; }
  // Shows the image when `drawn(image)` is signalled. Returns false if make_again() must be called.
  bool show(uint32_t image);
  // Waits for the device and creates the images again. Returns false if the window has no area, such as while
  // it is minimised.
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
