#include "frames.h"

#include "failure.h"

namespace npc {

Frame::Frame(const Device& device, VkRenderPass render_pass, VkExtent2D extent, const Control* control)
    : device_(device), control_(control), picture_(std::make_unique<Picture>(device, render_pass, extent)),
      vertices_(device, Painter::most_vertices * sizeof(Vertex), VK_BUFFER_USAGE_VERTEX_BUFFER_BIT) {
  const VulkanFunctions& vk = device.functions();
  VkCommandPoolCreateInfo pool{VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO};
  pool.flags = VK_COMMAND_POOL_CREATE_RESET_COMMAND_BUFFER_BIT | VK_COMMAND_POOL_CREATE_TRANSIENT_BIT;
  pool.queueFamilyIndex = device.queue_family();
  check(vk.vkCreateCommandPool(device.handle(), &pool, nullptr, &pool_), "making a command pool");
  VkCommandBufferAllocateInfo info{VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO};
  info.commandPool = pool_;
  info.level = VK_COMMAND_BUFFER_LEVEL_PRIMARY; // pumice_work_record requires it
  info.commandBufferCount = 1;
  check(vk.vkAllocateCommandBuffers(device.handle(), &info, &commands_), "making a command buffer");
  check(vk.vkAllocateCommandBuffers(device.handle(), &info, &end_), "making a command buffer");

  VkSemaphoreCreateInfo semaphore{VK_STRUCTURE_TYPE_SEMAPHORE_CREATE_INFO};
  check(vk.vkCreateSemaphore(device.handle(), &semaphore, nullptr, &acquired_), "making a semaphore");
  VkFenceCreateInfo fence{VK_STRUCTURE_TYPE_FENCE_CREATE_INFO};
  check(vk.vkCreateFence(device.handle(), &fence, nullptr, &finished_), "making a fence");
  if (device.tick_us() > 0) {
    VkQueryPoolCreateInfo stamps{VK_STRUCTURE_TYPE_QUERY_POOL_CREATE_INFO};
    stamps.queryType = VK_QUERY_TYPE_TIMESTAMP;
    stamps.queryCount = stamp_count_used();
    check(vk.vkCreateQueryPool(device.handle(), &stamps, nullptr, &stamps_), "making a query pool");
  }
}

Frame::~Frame() {
  const VulkanFunctions& vk = device_.functions();
  vk.vkDestroyQueryPool(device_.handle(), stamps_, nullptr);
  vk.vkDestroyFence(device_.handle(), finished_, nullptr);
  vk.vkDestroySemaphore(device_.handle(), acquired_, nullptr);
  vk.vkDestroyCommandPool(device_.handle(), pool_, nullptr);
}

void Frame::resize(VkRenderPass render_pass, VkExtent2D extent) {
  picture_.reset(); // before the new one is created: memory may not suffice for both
  picture_ = std::make_unique<Picture>(device_, render_pass, extent);
}

std::optional<DeviceTimes> Frame::wait() {
  if (!under_way_) return {};
  const VulkanFunctions& vk = device_.functions();
  check(vk.vkWaitForFences(device_.handle(), 1, &finished_, VK_TRUE, UINT64_MAX), "waiting for a frame");
  check(vk.vkResetFences(device_.handle(), 1, &finished_), "resetting a fence");
  under_way_ = false;
  if (!stamps_) return DeviceTimes{};
  std::array<uint64_t, stamp_count> ticks{};
  check(vk.vkGetQueryPoolResults(device_.handle(), stamps_, 0, stamp_count_used(), sizeof ticks, ticks.data(),
                                 sizeof(uint64_t), VK_QUERY_RESULT_64_BIT),
        "reading timestamps");
  const auto between = [&](Stamp from, Stamp to) {
    return static_cast<float>(static_cast<double>((ticks[to] - ticks[from]) & device_.tick_mask()) *
                              device_.tick_us());
  };
  if (!control_) return DeviceTimes{between(begun, drawn), between(drawn, added), 0};
  return DeviceTimes{between(begun, drawn), between(ready, added),
                     between(drawn, ready) + between(added, checked)};
}

void Frame::begin(VkCommandBuffer commands) {
  VkCommandBufferBeginInfo info{VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO};
  info.flags = VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT;
  check(device_.functions().vkBeginCommandBuffer(commands, &info), "beginning a command buffer");
}

void Frame::begin(double control_us) {
  control_us_ = control_us;
  begin(commands_);
  if (stamps_) device_.functions().vkCmdResetQueryPool(commands_, stamps_, 0, stamp_count_used());
  stamp(commands_, begun);
}

// The device writes the timestamp when everything before it is complete.
void Frame::stamp(VkCommandBuffer commands, Stamp which) {
  if (stamps_)
    device_.functions().vkCmdWriteTimestamp(commands, VK_PIPELINE_STAGE_BOTTOM_OF_PIPE_BIT, stamps_, which);
}

void Frame::scene_is_drawn() {
  stamp(commands_, drawn);
  run_control(commands_, ready);
}

void Frame::addition_is_done() {
  stamp(commands_, added);
  run_control(commands_, checked);
}

void Frame::run_control(VkCommandBuffer commands, Stamp done) {
  if (!control_) return;
  control_->record(commands, control_us_ / 2);
  stamp(commands, done);
}

void Frame::submit(VkCommandBuffer commands, VkSemaphore wait, VkSemaphore signal, VkFence fence) {
  const VulkanFunctions& vk = device_.functions();
  check(vk.vkEndCommandBuffer(commands), "ending a command buffer");
  const VkPipelineStageFlags stage = VK_PIPELINE_STAGE_TRANSFER_BIT; // where a window's image is written
  VkSubmitInfo info{VK_STRUCTURE_TYPE_SUBMIT_INFO};
  info.waitSemaphoreCount = wait ? 1 : 0;
  info.pWaitSemaphores = &wait;
  info.pWaitDstStageMask = &stage;
  info.commandBufferCount = 1;
  info.pCommandBuffers = &commands;
  info.signalSemaphoreCount = signal ? 1 : 0;
  info.pSignalSemaphores = &signal;
  const std::lock_guard lock(device_.queue_lock());
  check(vk.vkQueueSubmit(device_.queue(), 1, &info, fence), "submitting a frame");
}

void Frame::submit(VkSemaphore wait, VkSemaphore signal) {
  submit(commands_, wait, signal, finished_);
  under_way_ = true;
}

void Frame::submit_scene(VkSemaphore wait, VkSemaphore signal) {
  submit(commands_, wait, signal, VK_NULL_HANDLE);
}

void Frame::submit_end() {
  begin(end_);
  stamp(end_, added);
  run_control(end_, checked);
  submit(end_, VK_NULL_HANDLE, VK_NULL_HANDLE, finished_);
  under_way_ = true;
}

} // namespace npc
