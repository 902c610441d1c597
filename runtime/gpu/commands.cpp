#include "gpu/commands.h"

#include <utility>

namespace pumice {

Result<Commands> Commands::create(std::shared_ptr<Device> device, const char* name) {
  const Queue& queue = device->queue();
  return create(std::move(device), queue, name);
}

Result<Commands> Commands::create(std::shared_ptr<Device> device, const Queue& queue, const char* name) {
  Commands commands;
  commands.name_ = name;
  commands.device_ = std::move(device);
  VkCommandPoolCreateInfo info{VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO};
  info.queueFamilyIndex = queue.family();
  if (VkResult result = commands.device_->table().vkCreateCommandPool(commands.device_->handle(), &info,
                                                                      nullptr, &commands.pool_);
      result != VK_SUCCESS) {
    return vulkan_error("vkCreateCommandPool", result);
  }
  commands.device_->set_name(VK_OBJECT_TYPE_COMMAND_POOL, commands.pool_, name);
  return commands;
}

Commands Commands::into(std::shared_ptr<Device> device, VkCommandBuffer buffer) {
  Commands commands;
  commands.device_ = std::move(device);
  commands.buffers_ = {buffer};
  commands.used_ = 1;
  return commands;
}

Commands& Commands::operator=(Commands&& other) noexcept {
  std::swap(device_, other.device_);
  std::swap(pool_, other.pool_);
  std::swap(name_, other.name_);
  std::swap(buffers_, other.buffers_);
  std::swap(used_, other.used_);
  return *this;
}

Commands::~Commands() {
  if (pool_ && !device_->hangs()) device_->table().vkDestroyCommandPool(device_->handle(), pool_, nullptr);
}

Status Commands::begin() {
  if (used_ == buffers_.size()) PUMICE_CHECK(add_buffer());
  VkCommandBufferBeginInfo begin{VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO};
  begin.flags = VK_COMMAND_BUFFER_USAGE_SIMULTANEOUS_USE_BIT;
  if (VkResult result = device_->table().vkBeginCommandBuffer(buffers_[used_], &begin);
      result != VK_SUCCESS) {
    return vulkan_error("vkBeginCommandBuffer", result);
  }
  ++used_;
  return {};
}

Status Commands::add_buffer() {
  VkCommandBufferAllocateInfo allocate{VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO};
  allocate.commandPool = pool_;
  allocate.level = VK_COMMAND_BUFFER_LEVEL_PRIMARY;
  allocate.commandBufferCount = 1;
  VkCommandBuffer buffer = VK_NULL_HANDLE;
  if (VkResult result = device_->table().vkAllocateCommandBuffers(device_->handle(), &allocate, &buffer);
      result != VK_SUCCESS) {
    return vulkan_error("vkAllocateCommandBuffers", result);
  }
  device_->set_name(VK_OBJECT_TYPE_COMMAND_BUFFER, buffer, name_);
  buffers_.push_back(buffer);
  return {};
}

Status Commands::reset() {
  used_ = 0;
  if (VkResult result = device_->table().vkResetCommandPool(device_->handle(), pool_, 0);
      result != VK_SUCCESS) {
    return vulkan_error("vkResetCommandPool", result);
  }
  return {};
}

Status Commands::end() {
  if (VkResult result = device_->table().vkEndCommandBuffer(current()); result != VK_SUCCESS) {
    return vulkan_error("vkEndCommandBuffer", result);
  }
  return {};
}

Status Commands::run_and_wait() {
  PUMICE_TRY(const TimelinePoint done, device_->submit(buffers()));
  return device_->wait(done);
}

void Commands::barrier() {
  barrier(work, work);
}

void Commands::kernel_barrier() {
  barrier(kernels, kernels);
}

void Commands::host_barrier() {
  barrier(work, work_and_host);
}

void Commands::barrier(const Access& before, const Access& after) {
  VkMemoryBarrier barrier{VK_STRUCTURE_TYPE_MEMORY_BARRIER};
  barrier.srcAccessMask = before.writes;
  barrier.dstAccessMask = after.reads | after.writes;
  device_->table().vkCmdPipelineBarrier(current(), before.stages, after.stages, 0, 1, &barrier, 0, nullptr, 0,
                                        nullptr);
}

void Commands::dispatch(VkPipeline pipeline, VkPipelineLayout layout, VkDescriptorSet set,
                        std::span<const std::byte> push_constants, std::array<uint32_t, 3> groups,
                        std::array<uint32_t, 3> first) {
  const VulkanTable& vk = device_->table();
  VkCommandBuffer buffer = current();
  vk.vkCmdBindPipeline(buffer, VK_PIPELINE_BIND_POINT_COMPUTE, pipeline);
  vk.vkCmdBindDescriptorSets(buffer, VK_PIPELINE_BIND_POINT_COMPUTE, layout, 0, 1, &set, 0, nullptr);
  vk.vkCmdPushConstants(buffer, layout, VK_SHADER_STAGE_COMPUTE_BIT, 0,
                        static_cast<uint32_t>(push_constants.size()), push_constants.data());
  if (first == std::array<uint32_t, 3>{}) {
    vk.vkCmdDispatch(buffer, groups[0], groups[1], groups[2]);
  } else {
    vk.vkCmdDispatchBase(buffer, first[0], first[1], first[2], groups[0], groups[1], groups[2]);
  }
}

void Commands::copy(const Buffer& from, uint64_t from_offset, const Buffer& to, uint64_t to_offset,
                    uint64_t bytes) {
  const VkBufferCopy region{from_offset, to_offset, bytes};
  copy(from.handle(), to.handle(), std::span(&region, 1));
}

void Commands::copy(VkBuffer from, VkBuffer to, std::span<const VkBufferCopy> regions) {
  device_->table().vkCmdCopyBuffer(current(), from, to, static_cast<uint32_t>(regions.size()),
                                   regions.data());
}

void Commands::copy(VkImage image, VkImageLayout layout, const VkBufferImageCopy& region, const Buffer& to) {
  const VulkanTable& vk = device_->table();
  const VkImageSubresourceLayers& part = region.imageSubresource;
  VkImageMemoryBarrier barrier{VK_STRUCTURE_TYPE_IMAGE_MEMORY_BARRIER};
  barrier.srcAccessMask = VK_ACCESS_MEMORY_WRITE_BIT;
  barrier.dstAccessMask = VK_ACCESS_TRANSFER_READ_BIT;
  barrier.oldLayout = layout;
  barrier.newLayout = VK_IMAGE_LAYOUT_TRANSFER_SRC_OPTIMAL;
  barrier.srcQueueFamilyIndex = barrier.dstQueueFamilyIndex = VK_QUEUE_FAMILY_IGNORED;
  barrier.image = image;
  barrier.subresourceRange = {part.aspectMask, part.mipLevel, 1, part.baseArrayLayer, part.layerCount};
  vk.vkCmdPipelineBarrier(current(), VK_PIPELINE_STAGE_ALL_COMMANDS_BIT, VK_PIPELINE_STAGE_TRANSFER_BIT, 0, 0,
                          nullptr, 0, nullptr, 1, &barrier);
  vk.vkCmdCopyImageToBuffer(current(), image, barrier.newLayout, to.handle(), 1, &region);
  std::swap(barrier.oldLayout, barrier.newLayout);
  barrier.srcAccessMask = 0;
  barrier.dstAccessMask = VK_ACCESS_MEMORY_READ_BIT | VK_ACCESS_MEMORY_WRITE_BIT;
  VkMemoryBarrier host{VK_STRUCTURE_TYPE_MEMORY_BARRIER}; // of copies alone: the queue may have no kernels
  host.srcAccessMask = VK_ACCESS_TRANSFER_WRITE_BIT;
  host.dstAccessMask = VK_ACCESS_HOST_READ_BIT;
  constexpr VkPipelineStageFlags later = VK_PIPELINE_STAGE_ALL_COMMANDS_BIT | VK_PIPELINE_STAGE_HOST_BIT;
  vk.vkCmdPipelineBarrier(current(), VK_PIPELINE_STAGE_TRANSFER_BIT, later, 0, 1, &host, 0, nullptr, 1,
                          &barrier);
}

void Commands::fill(const Buffer& buffer, uint64_t offset, uint64_t bytes, uint32_t value) {
  device_->table().vkCmdFillBuffer(current(), buffer.handle(), offset, bytes, value);
}

void Commands::reset_queries(VkQueryPool pool, uint32_t count) {
  device_->table().vkCmdResetQueryPool(current(), pool, 0, count);
}

void Commands::write_timestamp(VkQueryPool pool, uint32_t index) {
  device_->table().vkCmdWriteTimestamp(current(), VK_PIPELINE_STAGE_BOTTOM_OF_PIPE_BIT, pool, index);
}

void Commands::copy_queries(VkQueryPool pool, uint32_t count, const Buffer& to) {
  device_->table().vkCmdCopyQueryPoolResults(current(), pool, 0, count, to.handle(), 0, sizeof(uint64_t),
                                             VK_QUERY_RESULT_64_BIT | VK_QUERY_RESULT_WAIT_BIT);
}

void Commands::set_event(VkEvent event) {
  // "All commands", not only the stages of our work: setting an event belongs to no stage. Only this orders
  // it after an earlier setting of the same event, and after the timestamps that the host reads when it sees
  // the event. The host's reset in between orders nothing on the device. Nothing on the device waits for the
  // event, so no other work is delayed.
  device_->table().vkCmdSetEvent(current(), event, VK_PIPELINE_STAGE_ALL_COMMANDS_BIT);
}

} // namespace pumice
