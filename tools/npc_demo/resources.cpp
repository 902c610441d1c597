#include "resources.h"

#include "failure.h"

namespace npc {

namespace {

VkDeviceMemory allocate(const Device& device, const VkMemoryRequirements& needed,
                        VkMemoryPropertyFlags flags) {
  VkMemoryAllocateInfo info{VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO};
  info.allocationSize = needed.size;
  info.memoryTypeIndex = device.memory_type(needed.memoryTypeBits, flags);
  VkDeviceMemory memory = VK_NULL_HANDLE;
  check(device.functions().vkAllocateMemory(device.handle(), &info, nullptr, &memory), "allocating memory");
  return memory;
}

} // namespace

Buffer::Buffer(const Device& device, VkDeviceSize bytes, VkBufferUsageFlags usage) : device_(device) {
  const VulkanFunctions& vk = device.functions();
  VkBufferCreateInfo info{VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO};
  info.size = bytes;
  info.usage = usage;
  check(vk.vkCreateBuffer(device.handle(), &info, nullptr, &buffer_), "making a buffer");
  VkMemoryRequirements needed;
  vk.vkGetBufferMemoryRequirements(device.handle(), buffer_, &needed);
  memory_ =
      allocate(device, needed, VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT);
  check(vk.vkBindBufferMemory(device.handle(), buffer_, memory_, 0), "binding a buffer's memory");
  check(vk.vkMapMemory(device.handle(), memory_, 0, VK_WHOLE_SIZE, 0, &data_), "mapping a buffer");
}

Buffer::~Buffer() {
  device_.functions().vkDestroyBuffer(device_.handle(), buffer_, nullptr);
  device_.functions().vkFreeMemory(device_.handle(), memory_, nullptr);
}

Image::Image(const Device& device, VkFormat format, VkExtent2D extent, VkImageUsageFlags usage)
    : device_(device), extent_(extent) {
  const VulkanFunctions& vk = device.functions();
  VkImageCreateInfo info{VK_STRUCTURE_TYPE_IMAGE_CREATE_INFO};
  info.imageType = VK_IMAGE_TYPE_2D;
  info.format = format;
  info.extent = {extent.width, extent.height, 1};
  info.mipLevels = 1;
  info.arrayLayers = 1;
  info.samples = VK_SAMPLE_COUNT_1_BIT;
  info.tiling = VK_IMAGE_TILING_OPTIMAL;
  info.usage = usage;
  check(vk.vkCreateImage(device.handle(), &info, nullptr, &image_), "making an image");
  VkMemoryRequirements needed;
  vk.vkGetImageMemoryRequirements(device.handle(), image_, &needed);
  memory_ = allocate(device, needed, VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT);
  check(vk.vkBindImageMemory(device.handle(), image_, memory_, 0), "binding an image's memory");

  VkImageViewCreateInfo view{VK_STRUCTURE_TYPE_IMAGE_VIEW_CREATE_INFO};
  view.image = image_;
  view.viewType = VK_IMAGE_VIEW_TYPE_2D;
  view.format = format;
  view.subresourceRange = whole_image;
  check(vk.vkCreateImageView(device.handle(), &view, nullptr, &view_), "making a view of an image");
}

Image::~Image() {
  const VulkanFunctions& vk = device_.functions();
  vk.vkDestroyImageView(device_.handle(), view_, nullptr);
  vk.vkDestroyImage(device_.handle(), image_, nullptr);
  vk.vkFreeMemory(device_.handle(), memory_, nullptr);
}

PipelineInput::PipelineInput(const Device& device, VkDescriptorType type, VkShaderStageFlags stage,
                             const VkPushConstantRange& push)
    : device_(device), type_(type) {
  const VulkanFunctions& vk = device.functions();
  VkDescriptorSetLayoutBinding binding{};
  binding.descriptorType = type;
  binding.descriptorCount = 1;
  binding.stageFlags = stage;
  VkDescriptorSetLayoutCreateInfo bindings{VK_STRUCTURE_TYPE_DESCRIPTOR_SET_LAYOUT_CREATE_INFO};
  bindings.bindingCount = 1;
  bindings.pBindings = &binding;
  check(vk.vkCreateDescriptorSetLayout(device.handle(), &bindings, nullptr, &set_layout_),
        "making a descriptor set layout");
  const VkDescriptorPoolSize size = {type, 1};
  VkDescriptorPoolCreateInfo pool{VK_STRUCTURE_TYPE_DESCRIPTOR_POOL_CREATE_INFO};
  pool.maxSets = 1;
  pool.poolSizeCount = 1;
  pool.pPoolSizes = &size;
  check(vk.vkCreateDescriptorPool(device.handle(), &pool, nullptr, &pool_), "making a descriptor pool");
  VkDescriptorSetAllocateInfo set{VK_STRUCTURE_TYPE_DESCRIPTOR_SET_ALLOCATE_INFO};
  set.descriptorPool = pool_;
  set.descriptorSetCount = 1;
  set.pSetLayouts = &set_layout_;
  check(vk.vkAllocateDescriptorSets(device.handle(), &set, &set_), "making a descriptor set");
  VkPipelineLayoutCreateInfo layout{VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO};
  layout.setLayoutCount = 1;
  layout.pSetLayouts = &set_layout_;
  layout.pushConstantRangeCount = 1;
  layout.pPushConstantRanges = &push;
  check(vk.vkCreatePipelineLayout(device.handle(), &layout, nullptr, &layout_), "making a pipeline layout");
}

PipelineInput::~PipelineInput() {
  const VulkanFunctions& vk = device_.functions();
  vk.vkDestroyPipelineLayout(device_.handle(), layout_, nullptr);
  vk.vkDestroyDescriptorPool(device_.handle(), pool_, nullptr);
  vk.vkDestroyDescriptorSetLayout(device_.handle(), set_layout_, nullptr);
}

void PipelineInput::write(const VkDescriptorBufferInfo* buffer, const VkDescriptorImageInfo* image) const {
  VkWriteDescriptorSet write{VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET};
  write.dstSet = set_;
  write.descriptorCount = 1;
  write.descriptorType = type_;
  write.pBufferInfo = buffer;
  write.pImageInfo = image;
  device_.functions().vkUpdateDescriptorSets(device_.handle(), 1, &write, 0, nullptr);
}

void PipelineInput::bind(VkCommandBuffer commands, VkPipelineBindPoint point) const {
  device_.functions().vkCmdBindDescriptorSets(commands, point, layout_, 0, 1, &set_, 0, nullptr);
}

VkShaderModule make_module(const Device& device, std::span<const uint32_t> words) {
  VkShaderModuleCreateInfo info{VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO};
  info.codeSize = words.size_bytes();
  info.pCode = words.data();
  VkShaderModule module = VK_NULL_HANDLE;
  check(device.functions().vkCreateShaderModule(device.handle(), &info, nullptr, &module),
        "making a shader module");
  return module;
}

VkPipelineShaderStageCreateInfo shader_stage(VkShaderStageFlagBits which, VkShaderModule module) {
  VkPipelineShaderStageCreateInfo info{VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO};
  info.stage = which;
  info.module = module;
  info.pName = "main";
  return info;
}

OneTimeCommands::OneTimeCommands(const Device& device) : device_(device) {
  const VulkanFunctions& vk = device.functions();
  VkCommandPoolCreateInfo pool{VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO};
  pool.queueFamilyIndex = device.queue_family();
  check(vk.vkCreateCommandPool(device.handle(), &pool, nullptr, &pool_), "making a command pool");
  VkCommandBufferAllocateInfo info{VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO};
  info.commandPool = pool_;
  info.level = VK_COMMAND_BUFFER_LEVEL_PRIMARY;
  info.commandBufferCount = 1;
  check(vk.vkAllocateCommandBuffers(device.handle(), &info, &commands_), "making a command buffer");
  VkCommandBufferBeginInfo begin{VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO};
  begin.flags = VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT;
  check(vk.vkBeginCommandBuffer(commands_, &begin), "beginning a command buffer");
}

OneTimeCommands::~OneTimeCommands() {
  device_.functions().vkDestroyCommandPool(device_.handle(), pool_, nullptr);
}

void OneTimeCommands::run() {
  const VulkanFunctions& vk = device_.functions();
  check(vk.vkEndCommandBuffer(commands_), "ending a command buffer");
  VkSubmitInfo submit{VK_STRUCTURE_TYPE_SUBMIT_INFO};
  submit.commandBufferCount = 1;
  submit.pCommandBuffers = &commands_;
  {
    const std::lock_guard lock(device_.queue_lock());
    check(vk.vkQueueSubmit(device_.queue(), 1, &submit, VK_NULL_HANDLE), "submitting");
  }
  device_.wait();
}

void change_use(const VulkanFunctions& vk, VkCommandBuffer commands, VkImage image, const ImageUse& before,
                const ImageUse& after) {
  VkImageMemoryBarrier barrier{VK_STRUCTURE_TYPE_IMAGE_MEMORY_BARRIER};
  barrier.srcAccessMask = before.access;
  barrier.dstAccessMask = after.access;
  barrier.oldLayout = before.layout;
  barrier.newLayout = after.layout;
  barrier.srcQueueFamilyIndex = VK_QUEUE_FAMILY_IGNORED;
  barrier.dstQueueFamilyIndex = VK_QUEUE_FAMILY_IGNORED;
  barrier.image = image;
  barrier.subresourceRange = whole_image;
  vk.vkCmdPipelineBarrier(commands, before.stage, after.stage, 0, 0, nullptr, 0, nullptr, 1, &barrier);
}

} // namespace npc
