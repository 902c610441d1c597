#include "swapchain.h"

#include <algorithm>

#include "failure.h"

namespace npc {

namespace {

// A format that shows values without conversion (not sRGB). The colours of the scene are chosen for that.
VkSurfaceFormatKHR choose_format(const Device& device, VkSurfaceKHR surface) {
  const VulkanFunctions& vk = device.functions();
  uint32_t count = 0;
  check(vk.vkGetPhysicalDeviceSurfaceFormatsKHR(device.physical(), surface, &count, nullptr),
        "listing the window's formats");
  std::vector<VkSurfaceFormatKHR> formats(count);
  check(vk.vkGetPhysicalDeviceSurfaceFormatsKHR(device.physical(), surface, &count, formats.data()),
        "listing the window's formats");
  for (const VkSurfaceFormatKHR& format : formats)
    if (format.format == VK_FORMAT_B8G8R8A8_UNORM || format.format == VK_FORMAT_R8G8B8A8_UNORM) return format;
  throw Failure("the window has no format with 8 bits per channel");
}

VkCompositeAlphaFlagBitsKHR choose_alpha(VkCompositeAlphaFlagsKHR supported) {
  return supported & VK_COMPOSITE_ALPHA_OPAQUE_BIT_KHR ? VK_COMPOSITE_ALPHA_OPAQUE_BIT_KHR
                                                       : VK_COMPOSITE_ALPHA_INHERIT_BIT_KHR;
}

} // namespace

Swapchain::Swapchain(const Device& device, VkSurfaceKHR surface, VkExtent2D extent)
    : device_(device), surface_(surface) {
  make_again(extent);
}

Swapchain::~Swapchain() {
  destroy_semaphores();
  device_.functions().vkDestroySwapchainKHR(device_.handle(), swapchain_, nullptr);
}

void Swapchain::destroy_semaphores() {
  for (VkSemaphore semaphore : drawn_)
    device_.functions().vkDestroySemaphore(device_.handle(), semaphore, nullptr);
  drawn_.clear();
}

bool Swapchain::make_again(VkExtent2D extent) {
  const VulkanFunctions& vk = device_.functions();
  device_.wait();
  VkSurfaceCapabilitiesKHR surface;
  check(vk.vkGetPhysicalDeviceSurfaceCapabilitiesKHR(device_.physical(), surface_, &surface),
        "asking for the window's size");
  if (surface.currentExtent.width != UINT32_MAX) extent = surface.currentExtent;
  extent.width = std::clamp(extent.width, surface.minImageExtent.width, surface.maxImageExtent.width);
  extent.height = std::clamp(extent.height, surface.minImageExtent.height, surface.maxImageExtent.height);
  if (extent.width == 0 || extent.height == 0) return false;
  if (!(surface.supportedUsageFlags & VK_IMAGE_USAGE_TRANSFER_DST_BIT))
    throw Failure("the window's images cannot be copied to");
  const VkSurfaceFormatKHR format = choose_format(device_, surface_);

  VkSwapchainCreateInfoKHR info{VK_STRUCTURE_TYPE_SWAPCHAIN_CREATE_INFO_KHR};
  info.surface = surface_;
  info.minImageCount = surface.minImageCount + 1;
  if (surface.maxImageCount > 0) info.minImageCount = std::min(info.minImageCount, surface.maxImageCount);
  info.imageFormat = format.format;
  info.imageColorSpace = format.colorSpace;
  info.imageExtent = extent;
  info.imageArrayLayers = 1;
  info.imageUsage = VK_IMAGE_USAGE_TRANSFER_DST_BIT;
  info.preTransform = surface.currentTransform;
  info.compositeAlpha = choose_alpha(surface.supportedCompositeAlpha);
  info.presentMode = VK_PRESENT_MODE_FIFO_KHR;
  info.clipped = VK_TRUE;
  info.oldSwapchain = swapchain_;
  VkSwapchainKHR made = VK_NULL_HANDLE;
  check(vk.vkCreateSwapchainKHR(device_.handle(), &info, nullptr, &made), "making a swapchain");
  vk.vkDestroySwapchainKHR(device_.handle(), swapchain_, nullptr);
  swapchain_ = made;
  extent_ = extent;

  uint32_t count = 0;
  check(vk.vkGetSwapchainImagesKHR(device_.handle(), swapchain_, &count, nullptr), "listing the images");
  images_.resize(count);
  check(vk.vkGetSwapchainImagesKHR(device_.handle(), swapchain_, &count, images_.data()),
        "listing the images");
  destroy_semaphores();
  // One semaphore for each image: until an image is acquired again, showing it may still wait for its
  // semaphore.
  VkSemaphoreCreateInfo semaphore{VK_STRUCTURE_TYPE_SEMAPHORE_CREATE_INFO};
  for (uint32_t i = 0; i < count; ++i)
    check(vk.vkCreateSemaphore(device_.handle(), &semaphore, nullptr, &drawn_.emplace_back()),
          "making a semaphore");
  return true;
}

std::optional<uint32_t> Swapchain::acquire(VkSemaphore acquired) {
  if (!swapchain_) return {};
  uint32_t image = 0;
  const VkResult result = device_.functions().vkAcquireNextImageKHR(device_.handle(), swapchain_, UINT64_MAX,
                                                                    acquired, VK_NULL_HANDLE, &image);
  if (result == VK_ERROR_OUT_OF_DATE_KHR) return {};
  if (result != VK_SUBOPTIMAL_KHR)
    check(result, "waiting for an image of the window"); // show() handles this case
  return image;
}

void Swapchain::copy(VkCommandBuffer commands, const Picture& picture, uint32_t image) const {
  const VulkanFunctions& vk = device_.functions();
  constexpr ImageUse nothing = {VK_IMAGE_LAYOUT_UNDEFINED, VK_PIPELINE_STAGE_TRANSFER_BIT, 0};
  constexpr ImageUse written = {VK_IMAGE_LAYOUT_TRANSFER_DST_OPTIMAL, VK_PIPELINE_STAGE_TRANSFER_BIT,
                                VK_ACCESS_TRANSFER_WRITE_BIT};
  constexpr ImageUse shown = {VK_IMAGE_LAYOUT_PRESENT_SRC_KHR, VK_PIPELINE_STAGE_BOTTOM_OF_PIPE_BIT, 0};
  const auto corner = [](VkExtent2D extent) {
    return VkOffset3D{static_cast<int32_t>(extent.width), static_cast<int32_t>(extent.height), 1};
  };
  VkImageBlit region{};
  region.srcSubresource = whole_layer;
  region.srcOffsets[1] = corner(picture.extent());
  region.dstSubresource = whole_layer;
  region.dstOffsets[1] = corner(extent_);
  change_use(vk, commands, images_[image], nothing, written);
  vk.vkCmdBlitImage(commands, picture.image(), VK_IMAGE_LAYOUT_TRANSFER_SRC_OPTIMAL, images_[image],
                    written.layout, 1, &region, VK_FILTER_NEAREST);
  change_use(vk, commands, images_[image], written, shown);
}

bool Swapchain::show(uint32_t image) {
  VkPresentInfoKHR info{VK_STRUCTURE_TYPE_PRESENT_INFO_KHR};
  info.waitSemaphoreCount = 1;
  info.pWaitSemaphores = &drawn_[image];
  info.swapchainCount = 1;
  info.pSwapchains = &swapchain_;
  info.pImageIndices = &image;
  const std::lock_guard lock(device_.queue_lock());
  const VkResult result = device_.functions().vkQueuePresentKHR(device_.queue(), &info);
  if (result == VK_ERROR_OUT_OF_DATE_KHR || result == VK_SUBOPTIMAL_KHR) return false;
  check(result, "showing a frame");
  return true;
}

} // namespace npc
