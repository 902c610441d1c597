#pragma once

#include <span>

#include "device.h"

namespace npc {

// A buffer in memory that the CPU can access.
class Buffer {
public:
  Buffer(const Device& device, VkDeviceSize bytes, VkBufferUsageFlags usage);
  ~Buffer();
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  VkBuffer handle() const { return buffer_; }
  void* data() const { return data_; }

private:
  const Device& device_;
  VkBuffer buffer_ = VK_NULL_HANDLE;
  VkDeviceMemory memory_ = VK_NULL_HANDLE;
  void* data_ = nullptr;
};

// An image with one level and one layer in the device's memory, and its view.
class Image {
public:
  Image(const Device& device, VkFormat format, VkExtent2D extent, VkImageUsageFlags usage);
  ~Image();
  Image(const Image&) = delete;
  Image& operator=(const Image&) = delete;

  VkImage handle() const { return image_; }
  VkImageView view() const { return view_; }
  VkExtent2D extent() const { return extent_; }

private:
  const Device& device_;
  VkExtent2D extent_;
  VkImage image_ = VK_NULL_HANDLE;
  VkDeviceMemory memory_ = VK_NULL_HANDLE;
  VkImageView view_ = VK_NULL_HANDLE;
};

// What a pipeline's shaders read: one binding, and push constants.
class PipelineInput {
public:
  PipelineInput(const Device& device, VkDescriptorType type, VkShaderStageFlags stage,
                const VkPushConstantRange& push);
  ~PipelineInput();
  PipelineInput(const PipelineInput&) = delete;
  PipelineInput& operator=(const PipelineInput&) = delete;

  VkPipelineLayout layout() const { return layout_; }
  // Says what is at the binding: before anything is recorded.
  void set(const VkDescriptorBufferInfo& buffer) const { write(&buffer, nullptr); }
  void set(const VkDescriptorImageInfo& image) const { write(nullptr, &image); }
  void bind(VkCommandBuffer commands, VkPipelineBindPoint point) const;

private:
  void write(const VkDescriptorBufferInfo* buffer, const VkDescriptorImageInfo* image) const;

  const Device& device_;
  VkDescriptorType type_;
  VkDescriptorSetLayout set_layout_ = VK_NULL_HANDLE;
  VkDescriptorPool pool_ = VK_NULL_HANDLE;
  VkDescriptorSet set_ = VK_NULL_HANDLE;
  VkPipelineLayout layout_ = VK_NULL_HANDLE;
};

VkShaderModule make_module(const Device& device, std::span<const uint32_t> words);
VkPipelineShaderStageCreateInfo shader_stage(VkShaderStageFlagBits which, VkShaderModule module);

// A command buffer that is used once: recorded, submitted, and waited for.
class OneTimeCommands {
public:
  explicit OneTimeCommands(const Device& device);
  ~OneTimeCommands();
  OneTimeCommands(const OneTimeCommands&) = delete;
  OneTimeCommands& operator=(const OneTimeCommands&) = delete;

  VkCommandBuffer handle() const { return commands_; }
  void run();

private:
  const Device& device_;
  VkCommandPool pool_ = VK_NULL_HANDLE;
  VkCommandBuffer commands_ = VK_NULL_HANDLE;
};

constexpr VkImageSubresourceRange whole_image = {VK_IMAGE_ASPECT_COLOR_BIT, 0, 1, 0, 1};
constexpr VkImageSubresourceLayers whole_layer = {VK_IMAGE_ASPECT_COLOR_BIT, 0, 0, 1};

// The use of an image before or after a barrier.
struct ImageUse {
  VkImageLayout layout;
  VkPipelineStageFlags stage;
  VkAccessFlags access;
};
void change_use(const VulkanFunctions& vk, VkCommandBuffer commands, VkImage image, const ImageUse& before,
                const ImageUse& after);

} // namespace npc
