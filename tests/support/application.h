#pragma once

#include <cstdlib>
#include <memory>
#include <span>

#include <doctest/doctest.h>

#include "gpu/instance.h"
#include "support/vulkan/gpu.h"

// An application with its own Vulkan: an instance with validation, and a device with the given features and
// extensions.
class Application {
public:
  // Functions of `table` that are not null take the place of the loader's.
  explicit Application(const void* features, std::span<const char* const> extensions = {},
                       const pumice::VulkanTable& table = {}) {
    pumice::InstanceOptions options;
    options.table = table;
    options.validate = !std::getenv("PUMICE_TEST_NO_VALIDATION");
    options.validation_log = [](const std::string& message) { validation_messages().push_back(message); };
    instance_ = *pumice::Instance::create(options);
    const pumice::Capabilities chosen = *instance_->choose("");
    table_ = instance_->table();

    const float priority = 0.5f;
    VkDeviceQueueCreateInfo queue{VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO};
    queue.queueFamilyIndex = static_cast<uint32_t>(chosen.compute_queue_family);
    queue.queueCount = 1;
    queue.pQueuePriorities = &priority;
    VkDeviceCreateInfo info{VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO, features};
    info.queueCreateInfoCount = 1;
    info.pQueueCreateInfos = &queue;
    info.enabledExtensionCount = static_cast<uint32_t>(extensions.size());
    info.ppEnabledExtensionNames = extensions.data();
    REQUIRE(table_.vkCreateDevice(chosen.handle, &info, nullptr, &device_) == VK_SUCCESS);
    REQUIRE(table_.load_device(device_).ok());
    external_.get_instance_proc_addr = table_.vkGetInstanceProcAddr;
    external_.instance = instance_->handle();
    external_.physical_device = chosen.handle;
    external_.device = device_;
    external_.queue_family = queue.queueFamilyIndex;
    table_.vkGetDeviceQueue(device_, queue.queueFamilyIndex, 0, &external_.queue);
    external_.features = features;
    external_.extensions = extensions;
  }
  ~Application() {
    CHECK(table_.vkDeviceWaitIdle(device_) == VK_SUCCESS); // it is still there
    table_.vkDestroyDevice(device_, nullptr);
  }

  pumice::ExternalDevice& device() { return external_; }
  const pumice::VulkanTable& table() const { return table_; }

private:
  std::shared_ptr<pumice::Instance> instance_;
  pumice::VulkanTable table_;
  VkDevice device_ = VK_NULL_HANDLE;
  pumice::ExternalDevice external_;
};
