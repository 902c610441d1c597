#pragma once

#include <filesystem>

#include "resources.h"

namespace npc {

// What a frame is drawn to, whether there is a window or not: an image of the demo's own. A window's frame is
// copied from it, and so is a file.
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

  // Writes a PNG of what was drawn last, which has to be finished.
  void save(const std::filesystem::path& path) const;

private:
  const Device& device_;
  Image image_;
  VkFramebuffer framebuffer_ = VK_NULL_HANDLE;
};

} // namespace npc
