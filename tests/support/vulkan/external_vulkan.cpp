#include "support/vulkan/external_vulkan.h"

#include <doctest/doctest.h>

#include "support/vulkan/gpu.h"

using namespace pumice;

ExternalVulkan::ExternalVulkan(PFN_vkGetInstanceProcAddr get_instance_proc_addr, bool validate) {
  InstanceOptions options;
  options.validate = validate;
  options.validation_log = [](const std::string& message) { validation_messages().push_back(message); };
  instance_ = *Instance::create(options);
  const Capabilities chosen = *instance_->choose("");
  table_ = instance_->table();
  // Whoever counts calls has to know whose queue it is.
  table_.vkGetDeviceQueue =
      reinterpret_cast<PFN_vkGetDeviceQueue>(get_instance_proc_addr(instance_->handle(), "vkGetDeviceQueue"));
  table_.vkDestroyDevice =
      reinterpret_cast<PFN_vkDestroyDevice>(get_instance_proc_addr(instance_->handle(), "vkDestroyDevice"));

  features_.timelineSemaphore = features_.bufferDeviceAddress = VK_TRUE;
  const float priority = 1;
  VkDeviceQueueCreateInfo queue{VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO};
  queue.queueFamilyIndex = static_cast<uint32_t>(chosen.compute_queue_family);
  queue.queueCount = 1;
  queue.pQueuePriorities = &priority;
  VkDeviceCreateInfo info{VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO, &features_};
  info.queueCreateInfoCount = 1;
  info.pQueueCreateInfos = &queue;
  REQUIRE(table_.vkCreateDevice(chosen.handle, &info, nullptr, &vulkan_.device) == VK_SUCCESS);
  REQUIRE(table_.load_device(vulkan_.device).ok());
  vulkan_.get_instance_proc_addr = get_instance_proc_addr;
  vulkan_.instance = instance_->handle();
  vulkan_.physical_device = chosen.handle;
  vulkan_.queue_family = queue.queueFamilyIndex;
  table_.vkGetDeviceQueue(vulkan_.device, queue.queueFamilyIndex, 0, &vulkan_.queue);
  vulkan_.features = &features_;

  VkCommandPoolCreateInfo pool{VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO};
  pool.queueFamilyIndex = queue.queueFamilyIndex;
  REQUIRE(table_.vkCreateCommandPool(vulkan_.device, &pool, nullptr, &pool_) == VK_SUCCESS);
  VkCommandBufferAllocateInfo allocate{VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO};
  allocate.commandPool = pool_;
  allocate.level = VK_COMMAND_BUFFER_LEVEL_PRIMARY;
  allocate.commandBufferCount = 1;
  REQUIRE(table_.vkAllocateCommandBuffers(vulkan_.device, &allocate, &commands_) == VK_SUCCESS);
}

ExternalVulkan::~ExternalVulkan() {
  CHECK(table_.vkDeviceWaitIdle(vulkan_.device) == VK_SUCCESS);
  table_.vkDestroyCommandPool(vulkan_.device, pool_, nullptr);
  table_.vkDestroyDevice(vulkan_.device, nullptr);
}

VkCommandBuffer ExternalVulkan::begin() {
  REQUIRE(table_.vkResetCommandPool(vulkan_.device, pool_, 0) == VK_SUCCESS);
  VkCommandBufferBeginInfo info{VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO};
  info.flags = VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT;
  REQUIRE(table_.vkBeginCommandBuffer(commands_, &info) == VK_SUCCESS);
  return commands_;
}

void ExternalVulkan::run() {
  REQUIRE(table_.vkEndCommandBuffer(commands_) == VK_SUCCESS);
  VkSubmitInfo info{VK_STRUCTURE_TYPE_SUBMIT_INFO};
  info.commandBufferCount = 1;
  info.pCommandBuffers = &commands_;
  REQUIRE(table_.vkQueueSubmit(vulkan_.queue, 1, &info, VK_NULL_HANDLE) == VK_SUCCESS);
  REQUIRE(table_.vkQueueWaitIdle(vulkan_.queue) == VK_SUCCESS);
}
