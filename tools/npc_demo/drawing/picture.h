#pragma once

#include <filesystem>

#include "resources.h"

namespace npc {

// The image that a frame is drawn to, with or without a window. It is copied to the window or to a file.
class Picture {
public:
  static constexpr VkFormat format = VK_FORMAT_R8G8B8A8_UNORM;

  Picture(const Device& device, VkRenderPass render_pass, VkExtent2D extent);
  ~Picture();
  Picture(const Picture&) = delete;
  Picture& operator=(const Picture&) = delete;

  VkImage image() const { return image_.handle(); }
  VkExtent2D extent() const { return image_.extent(); }
  VkFramebuffer framebuffer() const { return framebuffer_; }

  // Writes the picture as PNG. The device must have finished drawing it.
  void save(const std::filesystem::path& path) const;

private:
  const Device& device_;
  Image image_;
  VkFramebuffer framebuffer_ = VK_NULL_HANDLE;
};

} // namespace npc
