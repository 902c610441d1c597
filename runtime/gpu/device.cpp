#include "gpu/device.h"

#include <algorithm>
#include <vector>

#include <fmt/format.h>

namespace pumice {

namespace {

constexpr uint64_t one_second_ns = 1'000'000'000;

// What a device is asked for: only what kernels use, since features cost some drivers speed.
struct Features {
  VkPhysicalDeviceVulkan12Features v12{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES};
  VkPhysicalDeviceSubgroupSizeControlFeatures control{
      VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_FEATURES};
  VkPhysicalDeviceCooperativeMatrixFeaturesKHR matrix{
      VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_COOPERATIVE_MATRIX_FEATURES_KHR};
  VkPhysicalDeviceCooperativeMatrix2FeaturesNV matrix2{
      VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_COOPERATIVE_MATRIX_2_FEATURES_NV};
  VkPhysicalDeviceShaderIntegerDotProductFeatures dot{
      VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_INTEGER_DOT_PRODUCT_FEATURES};
  std::vector<const char*> extensions;

  explicit Features(const Capabilities& chosen) {
    v12.bufferDeviceAddress = chosen.buffer_device_address;
    v12.timelineSemaphore = VK_TRUE;
    v12.hostQueryReset = chosen.host_query_reset;
    void** end = &v12.pNext;
    const auto add = [&](auto& structure) {
      *end = &structure;
      end = &structure.pNext;
    };
    if (chosen.subgroup_size_control) {
      control.subgroupSizeControl = control.computeFullSubgroups = VK_TRUE;
      add(control);
    }
    if (chosen.integer_dot_product) {
      dot.shaderIntegerDotProduct = VK_TRUE;
      add(dot);
      extensions.push_back(VK_KHR_SHADER_INTEGER_DOT_PRODUCT_EXTENSION_NAME);
    }
    const std::vector<std::string> tiers = chosen.tiers();
    const auto has = [&](const char* tier) {
      return std::find(tiers.begin(), tiers.end(), tier) != tiers.end();
    };
    if (has("cm") || has("cm2")) {
      v12.shaderFloat16 = matrix.cooperativeMatrix = VK_TRUE;
      v12.vulkanMemoryModel = v12.vulkanMemoryModelDeviceScope = VK_TRUE;
      add(matrix);
      extensions.push_back(VK_KHR_COOPERATIVE_MATRIX_EXTENSION_NAME);
    }
    if (has("cm2")) {
      matrix2.cooperativeMatrixFlexibleDimensions = VK_TRUE;
      matrix2.cooperativeMatrixWorkgroupScope = chosen.workgroup_matrices;
      add(matrix2);
      extensions.push_back(VK_NV_COOPERATIVE_MATRIX_2_EXTENSION_NAME);
    }
  }
  Features(const Features&) = delete; // its structures point to each other
  Features& operator=(const Features&) = delete;
};

Status check_usable(const Capabilities& device) {
  if (device.usable()) return {};
  return Error{Code::unsupported, fmt::format("device {} ({}) cannot be used", device.index, device.name),
               device.problems};
}

} // namespace

Result<std::shared_ptr<Device>> Device::create(std::shared_ptr<Instance> instance,
                                               const Capabilities& chosen) {
  PUMICE_CHECK(check_usable(chosen));
  std::shared_ptr<Device> device(new Device(std::move(instance), chosen));
  const VulkanTable& vk = device->table_;
  const Features features(chosen);
  const float priority = 1.0f;
  VkDeviceQueueCreateInfo queue{VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO};
  queue.queueFamilyIndex = static_cast<uint32_t>(chosen.compute_queue_family);
  queue.queueCount = 1;
  queue.pQueuePriorities = &priority;
  VkDeviceCreateInfo info{VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO, &features.v12};
  info.queueCreateInfoCount = 1;
  info.pQueueCreateInfos = &queue;
  info.enabledExtensionCount = static_cast<uint32_t>(features.extensions.size());
  info.ppEnabledExtensionNames = features.extensions.data();
  if (VkResult result = vk.vkCreateDevice(chosen.handle, &info, nullptr, &device->handle_);
      result != VK_SUCCESS) {
    return vulkan_error("vkCreateDevice", result);
  }
  PUMICE_CHECK(device->table_.load_device(device->handle_));
  vk.vkGetDeviceQueue(device->handle_, queue.queueFamilyIndex, 0, &device->queue_);
  PUMICE_CHECK(device->make_timeline());
  return device;
}

Result<std::shared_ptr<Device>> Device::adopt(const HostDevice& host, VulkanTable table) {
  PUMICE_TRY(std::shared_ptr<Instance> instance,
             Instance::adopt(host.instance, host.get_instance_proc_addr, table));
  if (!host.physical_device || !host.device || !host.queue) {
    return Error{
        Code::invalid_argument,
        "an application's Vulkan device: expected a physical device, a device and a queue, found a null"};
  }
  if (!host.lock_queue != !host.unlock_queue) {
    return Error{Code::invalid_argument,
                 "an application's lock of its queue: expected both functions or neither, found one"};
  }
  const Capabilities capabilities = read_capabilities(instance->table(), host);
  PUMICE_CHECK(check_usable(capabilities));
  std::shared_ptr<Device> device(new Device(std::move(instance), capabilities));
  device->owned_ = false;
  device->handle_ = host.device;
  device->queue_ = host.queue;
  device->lock_queue_ = host.lock_queue;
  device->unlock_queue_ = host.unlock_queue;
  PUMICE_CHECK(device->table_.load_device(device->handle_));
  PUMICE_CHECK(device->make_timeline());
  return device;
}

Device::Device(std::shared_ptr<Instance> instance, const Capabilities& chosen)
    : instance_(std::move(instance)), table_(instance_->table()), capabilities_(chosen) {
  VkPhysicalDeviceMemoryProperties2 memory{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_PROPERTIES_2};
  table_.vkGetPhysicalDeviceMemoryProperties2(chosen.handle, &memory);
  memory_ = memory.memoryProperties;
}

Status Device::make_timeline() {
  VkSemaphoreTypeCreateInfo timeline{VK_STRUCTURE_TYPE_SEMAPHORE_TYPE_CREATE_INFO};
  timeline.semaphoreType = VK_SEMAPHORE_TYPE_TIMELINE;
  VkSemaphoreCreateInfo semaphore{VK_STRUCTURE_TYPE_SEMAPHORE_CREATE_INFO, &timeline};
  if (VkResult result = table_.vkCreateSemaphore(handle_, &semaphore, nullptr, &timeline_);
      result != VK_SUCCESS) {
    return vulkan_error("vkCreateSemaphore", result);
  }
  return {};
}

Device::~Device() {
  if (!handle_ || !table_.vkDestroyDevice) return;
  // An application's queues are its own to wait for: what was submitted here is all that has to be done. On a
  // device that is lost, waiting fails at once.
  if (owned_) {
    table_.vkDeviceWaitIdle(handle_);
  } else if (last_value_ > 0) {
    (void)wait(last_value_);
  }
  if (timeline_) table_.vkDestroySemaphore(handle_, timeline_, nullptr);
  if (owned_) table_.vkDestroyDevice(handle_, nullptr);
}

Result<uint64_t> Device::submit(std::span<const VkCommandBuffer> commands) {
  uint64_t value = 0;
  const VkResult result = with_queue([&] {
    value = last_value_ + 1;
    VkTimelineSemaphoreSubmitInfo timeline{VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO};
    timeline.signalSemaphoreValueCount = 1;
    timeline.pSignalSemaphoreValues = &value;
    VkSubmitInfo info{VK_STRUCTURE_TYPE_SUBMIT_INFO, &timeline};
    info.commandBufferCount = static_cast<uint32_t>(commands.size());
    info.pCommandBuffers = commands.data();
    info.signalSemaphoreCount = 1;
    info.pSignalSemaphores = &timeline_;
    const VkResult submitted = table_.vkQueueSubmit(queue_, 1, &info, VK_NULL_HANDLE);
    if (submitted == VK_SUCCESS) last_value_ = value;
    return submitted;
  });
  if (result != VK_SUCCESS) return vulkan_error("vkQueueSubmit", result);
  return value;
}

Status Device::wait(uint64_t value) {
  VkSemaphoreWaitInfo info{VK_STRUCTURE_TYPE_SEMAPHORE_WAIT_INFO};
  info.semaphoreCount = 1;
  info.pSemaphores = &timeline_;
  info.pValues = &value;
  VkResult result = VK_TIMEOUT;
  while (result == VK_TIMEOUT) result = table_.vkWaitSemaphores(handle_, &info, one_second_ns);
  if (result == VK_SUCCESS) return {};
  // Whoever is told of an error takes down what the device may still work on. Without memory for the one call
  // the other may do, and then nothing has failed; on a lost device it returns at once.
  const VkResult idle = with_queue([&] { return table_.vkQueueWaitIdle(queue_); });
  if (idle == VK_SUCCESS && result != VK_ERROR_DEVICE_LOST) return {};
  return vulkan_error("vkWaitSemaphores", result);
}

Result<uint64_t> Device::completed() const {
  uint64_t value = 0;
  if (VkResult result = table_.vkGetSemaphoreCounterValue(handle_, timeline_, &value); result != VK_SUCCESS) {
    return vulkan_error("vkGetSemaphoreCounterValue", result);
  }
  return value;
}

void Device::count_allocation(uint64_t bytes) {
  const uint64_t now = allocated_bytes_ += bytes;
  uint64_t peak = peak_bytes_;
  while (peak < now && !peak_bytes_.compare_exchange_weak(peak, now)) {
  }
}

} // namespace pumice
