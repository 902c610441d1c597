#pragma once

#include <atomic>
#include <cstddef>
#include <mutex>
#include <span>

#include "support/application.h"
#include "support/embedding.h"

// The beginning of what such programs' sessions tell.
inline constexpr const char* prompt = "Once upon a time there was a little girl named Lily. She loved to";

// A program that owns the Vulkan device, as the public interface sees it.
class VulkanProgram {
public:
  VulkanProgram() : VulkanProgram(usual()) {}
  explicit VulkanProgram(const VkPhysicalDeviceVulkan12Features& features)
      : features_(features), application_(&features_) {}
  VulkanProgram(const void* features, std::span<const char* const> extensions,
                const pumice::VulkanTable& table = {})
      : application_(features, extensions, table) {}

  static VkPhysicalDeviceVulkan12Features usual() {
    VkPhysicalDeviceVulkan12Features v12{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES};
    v12.timelineSemaphore = v12.bufferDeviceAddress = VK_TRUE;
    return v12;
  }

  pumice_vulkan vulkan() {
    const pumice::ExternalDevice& device = application_.device();
    pumice_vulkan own = {sizeof own};
    own.get_instance_proc_addr =
        reinterpret_cast<pumice_get_instance_proc_addr>(device.get_instance_proc_addr);
    own.instance = device.instance;
    own.physical_device = device.physical_device;
    own.device = device.device;
    own.queue_family = device.queue_family;
    own.queue = device.queue;
    own.features = device.features;
    own.extensions = device.extensions.data();
    own.extension_count = static_cast<uint32_t>(device.extensions.size());
    own.lock_user = this;
    own.lock_queue = [](void* user) {
      auto& self = *static_cast<VulkanProgram*>(user);
      self.queue_.lock();
      ++self.locks;
    };
    own.unlock_queue = [](void* user) { static_cast<VulkanProgram*>(user)->queue_.unlock(); };
    return own;
  }
  DeviceHandle device(const pumice_allocator* allocator = nullptr) {
    pumice_device_options options = {sizeof options};
    options.allocator = allocator;
    return device(options);
  }
  DeviceHandle device(pumice_device_options options) {
    const pumice_vulkan own = vulkan();
    options.vulkan = &own;
    return make_device(options);
  }

  const pumice::VulkanTable& vk() const { return application_.table(); }
  VkDevice handle() { return application_.device().device; }
  uint32_t family() { return application_.device().queue_family; }
  std::mutex& queue() { return queue_; }

  void submit(VkCommandBuffer commands) {
    VkSubmitInfo info{VK_STRUCTURE_TYPE_SUBMIT_INFO};
    info.commandBufferCount = 1;
    info.pCommandBuffers = &commands;
    submit(info);
  }
  void submit(const VkSubmitInfo& info) {
    const std::lock_guard lock(queue_);
    REQUIRE(vk().vkQueueSubmit(application_.device().queue, 1, &info, VK_NULL_HANDLE) == VK_SUCCESS);
  }
  void wait() {
    const std::lock_guard lock(queue_);
    REQUIRE(vk().vkQueueWaitIdle(application_.device().queue) == VK_SUCCESS);
  }

  std::atomic<int> locks = 0;

private:
  VkPhysicalDeviceVulkan12Features features_ = {};
  Application application_;
  std::mutex queue_;
};

// Command buffers of a program that has several frames in flight.
class Frames {
public:
  explicit Frames(VulkanProgram& program) : program_(program) {
    VkCommandPoolCreateInfo info{VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO};
    info.queueFamilyIndex = program.family();
    REQUIRE(program.vk().vkCreateCommandPool(program.handle(), &info, nullptr, &pool_) == VK_SUCCESS);
  }
  ~Frames() {
    program_.wait();
    program_.vk().vkDestroyCommandPool(program_.handle(), pool_, nullptr);
  }
  VkCommandBuffer begin() {
    VkCommandBufferAllocateInfo allocate{VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO};
    allocate.commandPool = pool_;
    allocate.level = VK_COMMAND_BUFFER_LEVEL_PRIMARY;
    allocate.commandBufferCount = 1;
    VkCommandBuffer buffer = VK_NULL_HANDLE;
    REQUIRE(program_.vk().vkAllocateCommandBuffers(program_.handle(), &allocate, &buffer) == VK_SUCCESS);
    VkCommandBufferBeginInfo begin{VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO};
    begin.flags = VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT;
    REQUIRE(program_.vk().vkBeginCommandBuffer(buffer, &begin) == VK_SUCCESS);
    return buffer;
  }
  void end(VkCommandBuffer buffer) { REQUIRE(program_.vk().vkEndCommandBuffer(buffer) == VK_SUCCESS); }

private:
  VulkanProgram& program_;
  VkCommandPool pool_ = VK_NULL_HANDLE;
};

inline SessionHandle small_session(pumice_model* model, pumice_buffer logits = {}) {
  pumice_session_options options = {sizeof options};
  options.context = 192;
  options.chunk = 16;
  options.logits = logits;
  return make_session(model, options);
}

inline Story expected_story(uint32_t tokens) {
  const DeviceHandle device = make_device();
  const ModelHandle model = load(device.get());
  return tell(small_session(model.get()).get(), prompt, tokens);
}
