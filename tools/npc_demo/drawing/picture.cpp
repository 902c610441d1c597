#include "drawing/picture.h"

#include "drawing/image_file.h"
#include "failure.h"

namespace npc {

Picture::Picture(const Device& device, VkRenderPass render_pass, VkExtent2D extent)
    : device_(device),
      image_(device, format, extent, VK_IMAGE_USAGE_COLOR_ATTACHMENT_BIT | VK_IMAGE_USAGE_TRANSFER_SRC_BIT) {
  const VkImageView view = image_.view();
  VkFramebufferCreateInfo info{VK_STRUCTURE_TYPE_FRAMEBUFFER_CREATE_INFO};
  info.renderPass = render_pass;
  info.attachmentCount = 1;
  info.pAttachments = &view;
  info.width = extent.width;
  info.height = extent.height;
  info.layers = 1;
  check(device.functions().vkCreateFramebuffer(device.handle(), &info, nullptr, &framebuffer_),
        "making a framebuffer");
}

Picture::~Picture() {
  device_.functions().vkDestroyFramebuffer(device_.handle(), framebuffer_, nullptr);
}

void Picture::save(const std::filesystem::path& path) const {
  const VulkanFunctions& vk = device_.functions();
  const auto [width, height] = extent();
  const Buffer pixels(device_, VkDeviceSize{4} * width * height, VK_BUFFER_USAGE_TRANSFER_DST_BIT);
  OneTimeCommands commands(device_);
  VkBufferImageCopy region{};
  region.imageSubresource = whole_layer;
  region.imageExtent = {width, height, 1};
  vk.vkCmdCopyImageToBuffer(commands.handle(), image(), VK_IMAGE_LAYOUT_TRANSFER_SRC_OPTIMAL, pixels.handle(),
                            1, &region);
  VkMemoryBarrier barrier{VK_STRUCTURE_TYPE_MEMORY_BARRIER};
  barrier.srcAccessMask = VK_ACCESS_TRANSFER_WRITE_BIT;
  barrier.dstAccessMask = VK_ACCESS_HOST_READ_BIT;
  vk.vkCmdPipelineBarrier(commands.handle(), VK_PIPELINE_STAGE_TRANSFER_BIT, VK_PIPELINE_STAGE_HOST_BIT, 0, 1,
                          &barrier, 0, nullptr, 0, nullptr);
  commands.run();
  write_png(path, width, height, static_cast<const uint8_t*>(pixels.data()));
}

} // namespace npc
