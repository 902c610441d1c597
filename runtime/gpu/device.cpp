#include "gpu/device.h"

#include <algorithm>
#include <chrono>
#include <mutex>
#include <vector>

#include <fmt/format.h>

#include "base/guarded.h"
#include "gpu/device_features.h"

namespace pumice {

namespace {

// Keeps the instance of a device that hangs to the end of the process.
void keep_forever(std::shared_ptr<Instance> instance) {
  static std::mutex mutex;
  static auto* const all = new std::vector<std::shared_ptr<Instance>>; // destroyed by nobody
  const std::lock_guard lock(mutex);
  all->push_back(std::move(instance));
}

const char* name_of(GlobalPriority priority) {
  constexpr const char* names[] = {"default", "low", "medium", "high", "realtime"};
  return names[static_cast<size_t>(priority)];
}

VkQueueGlobalPriorityKHR vulkan_priority(GlobalPriority priority) {
  switch (priority) {
  case GlobalPriority::low:
    return VK_QUEUE_GLOBAL_PRIORITY_LOW_KHR;
  case GlobalPriority::high:
    return VK_QUEUE_GLOBAL_PRIORITY_HIGH_KHR;
  case GlobalPriority::realtime:
    return VK_QUEUE_GLOBAL_PRIORITY_REALTIME_KHR;
  default:
    return VK_QUEUE_GLOBAL_PRIORITY_MEDIUM_KHR;
  }
}

// Semaphores side by side with their values, as VkSubmitInfo has them.
struct Semaphores {
  std::vector<VkSemaphore> handles;
  std::vector<uint64_t> values;

  explicit Semaphores(std::span<const SemaphoreValue> semaphores) {
    for (const SemaphoreValue& semaphore : semaphores) add(semaphore);
  }
  void add(const SemaphoreValue& semaphore) {
    handles.push_back(semaphore.semaphore);
    values.push_back(semaphore.value);
  }
  uint32_t count() const { return static_cast<uint32_t>(handles.size()); }
};

Status check_handles(const ExternalDevice& external) {
  const std::pair<const char*, bool> handles[] = {{"instance", external.instance},
                                                  {"get_instance_proc_addr", external.get_instance_proc_addr},
                                                  {"physical_device", external.physical_device},
                                                  {"device", external.device},
                                                  {"queue", external.queue}};
  for (const auto& [name, given] : handles) {
    if (given) continue;
    return Error{Code::invalid_argument,
                 fmt::format("the application's Vulkan device cannot be used: its {} is NULL. Set instance, "
                             "get_instance_proc_addr, physical_device, device and queue",
                             name)};
  }
  return {};
}

} // namespace

Status Device::check(const DeviceOptions& options) {
  if (!(options.queue_priority >= 0 && options.queue_priority <= 1)) {
    return Error{
        Code::invalid_argument,
        fmt::format("a queue's priority is {}: it must be a number from 0 to 1", options.queue_priority)};
  }
  if (!options.allocator.allocate != !options.allocator.free) {
    return Error{
        Code::invalid_argument,
        "an application's allocator has only one of its two functions: give allocate and free, or neither"};
  }
  return {};
}

Result<std::shared_ptr<Device>> Device::create(std::shared_ptr<Instance> instance, const Capabilities& chosen,
                                               const DeviceOptions& options) {
  PUMICE_CHECK(check_usable(chosen));
  PUMICE_CHECK(check(options));
  std::shared_ptr<Device> device(new Device(std::move(instance), chosen, options));
  PUMICE_CHECK(device->make_device(options));
  PUMICE_CHECK(device->table_.load_device(device->handle_));
  device->table_.vkGetDeviceQueue(device->handle_, static_cast<uint32_t>(chosen.compute_queue_family), 0,
                                  &device->queue_);
  PUMICE_CHECK(device->make_timeline());
  return device;
}

Status Device::make_device(const DeviceOptions& options) {
  const DeviceFeatures features(capabilities_);
  std::vector<const char*> extensions = features.extensions();
  VkDeviceQueueGlobalPriorityCreateInfoKHR global{
      VK_STRUCTURE_TYPE_DEVICE_QUEUE_GLOBAL_PRIORITY_CREATE_INFO_KHR};
  VkDeviceQueueCreateInfo queue{VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO};
  queue.queueFamilyIndex = static_cast<uint32_t>(capabilities_.compute_queue_family);
  queue.queueCount = 1;
  queue.pQueuePriorities = &options.queue_priority;
  const char* const priority = name_of(options.global_priority);
  if (options.global_priority != GlobalPriority::standard) {
    if (capabilities_.global_priority_extension.empty()) {
      notes_.push_back(fmt::format("a global priority ({}) was asked for, and {} has no such thing "
                                   "(VK_KHR_global_priority): the queue has the default one",
                                   priority, capabilities_.name));
    } else {
      global.globalPriority = vulkan_priority(options.global_priority);
      queue.pNext = &global;
      extensions.push_back(capabilities_.global_priority_extension.c_str());
    }
  }
  VkDeviceCreateInfo info{VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO, features.chain()};
  info.queueCreateInfoCount = 1;
  info.pQueueCreateInfos = &queue;
  info.enabledExtensionCount = static_cast<uint32_t>(extensions.size());
  info.ppEnabledExtensionNames = extensions.data();
  VkResult result = table_.vkCreateDevice(capabilities_.handle, &info, nullptr, &handle_);
  // This user may not use the priority, or the device does not support it.
  if (queue.pNext && (result == VK_ERROR_NOT_PERMITTED_KHR || result == VK_ERROR_INITIALIZATION_FAILED)) {
    notes_.push_back(fmt::format("{} refused the global priority that was asked for ({}): the queue has the "
                                 "default one",
                                 capabilities_.name, priority));
    queue.pNext = nullptr;
    result = table_.vkCreateDevice(capabilities_.handle, &info, nullptr, &handle_);
  }
  if (result != VK_SUCCESS) return vulkan_error("vkCreateDevice", result);
  return {};
}

Result<std::shared_ptr<Device>> Device::adopt(const ExternalDevice& external, VulkanTable table,
                                              const DeviceOptions& options) {
  PUMICE_CHECK(check(options));
  PUMICE_CHECK(check_handles(external));
  PUMICE_TRY(std::shared_ptr<Instance> instance,
             Instance::adopt(external.instance, external.get_instance_proc_addr, table));
  if (!external.lock_queue != !external.unlock_queue) {
    return Error{Code::invalid_argument,
                 "an application's lock of its queue has only one of its two functions: give lock_queue and "
                 "unlock_queue, or neither"};
  }
  const Capabilities capabilities = read_capabilities(instance->table(), external);
  PUMICE_CHECK(check_usable(capabilities));
  std::shared_ptr<Device> device(new Device(std::move(instance), capabilities, options));
  device->owned_ = false;
  device->handle_ = external.device;
  device->queue_ = external.queue;
  device->external_lock_ = external.lock_queue;
  device->external_unlock_ = external.unlock_queue;
  device->notes_ = what_is_lost(
      read_capabilities(device->table_, external.physical_device, capabilities.index), capabilities);
  PUMICE_CHECK(device->table_.load_device(device->handle_));
  PUMICE_CHECK(device->make_timeline());
  return device;
}

Device::Device(std::shared_ptr<Instance> instance, const Capabilities& chosen, const DeviceOptions& options)
    : instance_(std::move(instance)), table_(instance_->table()), capabilities_(chosen),
      patience_(options.patience), allocator_(options.allocator), memory_count_(options.memory_limit) {
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
  set_name(VK_OBJECT_TYPE_SEMAPHORE, timeline_, "timeline");
  return {};
}

Device::~Device() {
  if (!handle_ || !table_.vkDestroyDevice) return;
  // On an application's device wait only for our own submissions, not for its queues. On a lost device
  // waiting fails at once.
  if (owned_) {
    if (!hangs_) table_.vkDeviceWaitIdle(handle_);
  } else if (last_value_ > 0) {
    (void)guarded([&] { return wait({last_value_}); });
  }
  if (hangs_) {
    keep_forever(std::move(instance_));
    return;
  }
  if (timeline_) table_.vkDestroySemaphore(handle_, timeline_, nullptr);
  if (owned_) table_.vkDestroyDevice(handle_, nullptr);
}

void Device::lock_queue() {
  queue_mutex_.lock();
  if (external_lock_) external_lock_();
}

void Device::unlock_queue() {
  if (external_unlock_) external_unlock_();
  queue_mutex_.unlock();
}

Result<TimelinePoint> Device::submit(std::span<const VkCommandBuffer> commands, const SubmitSync& sync) {
  if (hangs_) return hang();
  const Semaphores wait(sync.wait);
  Semaphores signal(sync.signal);
  signal.add({timeline_, 0});
  const std::vector<VkPipelineStageFlags> stages(sync.wait.size(), VK_PIPELINE_STAGE_ALL_COMMANDS_BIT);
  uint64_t value = 0;
  const VkResult result = with_queue([&] {
    signal.values.back() = value = last_value_ + 1;
    VkTimelineSemaphoreSubmitInfo timeline{VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO};
    timeline.waitSemaphoreValueCount = wait.count();
    timeline.pWaitSemaphoreValues = wait.values.data();
    timeline.signalSemaphoreValueCount = signal.count();
    timeline.pSignalSemaphoreValues = signal.values.data();
    VkSubmitInfo info{VK_STRUCTURE_TYPE_SUBMIT_INFO, &timeline};
    info.waitSemaphoreCount = wait.count();
    info.pWaitSemaphores = wait.handles.data();
    info.pWaitDstStageMask = stages.data();
    info.commandBufferCount = static_cast<uint32_t>(commands.size());
    info.pCommandBuffers = commands.data();
    info.signalSemaphoreCount = signal.count();
    info.pSignalSemaphores = signal.handles.data();
    const VkResult submitted = table_.vkQueueSubmit(queue_, 1, &info, VK_NULL_HANDLE);
    if (submitted == VK_SUCCESS) last_value_ = value;
    return submitted;
  });
  if (result != VK_SUCCESS) return vulkan_error("vkQueueSubmit", result);
  return TimelinePoint{value};
}

Status Device::wait(TimelinePoint point) {
  VkSemaphoreWaitInfo info{VK_STRUCTURE_TYPE_SEMAPHORE_WAIT_INFO};
  info.semaphoreCount = 1;
  info.pSemaphores = &timeline_;
  info.pValues = &point.value;
  constexpr double between_looks = 1; // seconds
  using Clock = std::chrono::steady_clock;
  Clock::time_point moved = Clock::now();
  uint64_t reached = 0;
  VkResult result = VK_TIMEOUT;
  while (result == VK_TIMEOUT && !hangs_) {
    const double seconds = std::min(between_looks, patience_);
    result = table_.vkWaitSemaphores(handle_, &info, static_cast<uint64_t>(seconds * 1e9));
    if (result != VK_TIMEOUT) break;
    uint64_t value = 0;
    (void)table_.vkGetSemaphoreCounterValue(handle_, timeline_, &value);
    if (value > reached) moved = Clock::now();
    reached = std::max(reached, value);
    if (std::chrono::duration<double>(Clock::now() - moved).count() >= patience_) hangs_ = true;
  }
  if (hangs_) return hang();
  if (result == VK_SUCCESS) return {};
  // After an error the caller destroys objects that the device may still use, so wait until the queue is
  // idle. If that succeeds (vkWaitSemaphores may only have lacked memory), nothing has failed. On a lost
  // device the call returns at once.
  const VkResult idle = with_queue([&] { return table_.vkQueueWaitIdle(queue_); });
  if (idle == VK_SUCCESS && result != VK_ERROR_DEVICE_LOST) return {};
  return vulkan_error("vkWaitSemaphores", result);
}

Error Device::hang() const {
  return {
      Code::device_lost,
      fmt::format("{} has not finished its work for {:g} s: it or its driver hangs. End the program; if it "
                  "happens again, use a newer driver or another device",
                  capabilities_.name, patience_)};
}

// Names are only for debugging: a long name is cut, and a failure is ignored.
void Device::set_name_of(VkObjectType type, uint64_t handle, std::string_view name) const {
  char text[128];
  const auto end = fmt::format_to_n(text, sizeof text - 1, "pumice: {}", name);
  *end.out = 0;
  VkDebugUtilsObjectNameInfoEXT info{VK_STRUCTURE_TYPE_DEBUG_UTILS_OBJECT_NAME_INFO_EXT};
  info.objectType = type;
  info.objectHandle = handle;
  info.pObjectName = text;
  (void)table_.vkSetDebugUtilsObjectNameEXT(handle_, &info);
}

Result<TimelinePoint> Device::completed() const {
  uint64_t value = 0;
  if (VkResult result = table_.vkGetSemaphoreCounterValue(handle_, timeline_, &value); result != VK_SUCCESS) {
    return vulkan_error("vkGetSemaphoreCounterValue", result);
  }
  return TimelinePoint{value};
}

} // namespace pumice
