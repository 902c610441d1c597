#include "gpu/device.h"

#include <array>
#include <limits>
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

Status check_handles(const ExternalDevice& external) {
  const std::pair<const char*, bool> handles[] = {{"instance", external.instance},
                                                  {"get_instance_proc_addr", external.get_instance_proc_addr},
                                                  {"physical_device", external.physical_device},
                                                  {"device", external.device},
                                                  {"queue", external.queue || external.submit}};
  for (const auto& [name, given] : handles) {
    if (given) continue;
    return Error{Code::invalid_argument,
                 fmt::format("the application's Vulkan device cannot be used: its {} is NULL. Set instance, "
                             "get_instance_proc_addr, physical_device, device, and queue or submit",
                             name)};
  }
  if (external.submit && external.lock_queue) {
    return Error{Code::invalid_argument, "an application's queue has a lock, and the application submits "
                                         "itself: give lock_queue and unlock_queue, or submit"};
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
  device->ask_for_matrices(options);
  PUMICE_CHECK(device->make_device(options));
  PUMICE_CHECK(device->table_.load_device(device->handle_));
  PUMICE_CHECK(device->open_queues());
  return device;
}

void Device::ask_for_matrices(const DeviceOptions& options) {
  const bool known = !capabilities_.matrix_sizes.empty() || !capabilities_.matrix_granularities.empty();
  if (known || (capabilities_.is_cpu() && !options.processor_matrices)) return;
  read_matrices(table_, capabilities_);
}

Status Device::open_queues() {
  const auto open = [&](Queue& queue, int family, const char* name) {
    VkQueue handle = VK_NULL_HANDLE;
    table_.vkGetDeviceQueue(handle_, static_cast<uint32_t>(family), 0, &handle);
    return queue.open(handle, static_cast<uint32_t>(family), name);
  };
  PUMICE_CHECK(open(queue_, capabilities_.compute_queue_family, "timeline"));
  if (capabilities_.copy_queue_family < 0) return {};
  return open(copies_, capabilities_.copy_queue_family, "timeline of copies");
}

Status Device::make_device(const DeviceOptions& options) {
  const DeviceFeatures features(capabilities_);
  std::vector<const char*> extensions = features.extensions();
  VkDeviceQueueGlobalPriorityCreateInfoKHR global{
      VK_STRUCTURE_TYPE_DEVICE_QUEUE_GLOBAL_PRIORITY_CREATE_INFO_KHR};
  std::array<VkDeviceQueueCreateInfo, 2> queues = {};
  uint32_t queue_count = 0;
  for (const int family : {capabilities_.compute_queue_family, capabilities_.copy_queue_family}) {
    if (family < 0) continue;
    VkDeviceQueueCreateInfo& each = queues[queue_count++];
    each.sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO;
    each.queueFamilyIndex = static_cast<uint32_t>(family);
    each.queueCount = 1;
    each.pQueuePriorities = &options.queue_priority;
  }
  VkDeviceQueueCreateInfo& queue = queues[0];
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
  info.queueCreateInfoCount = queue_count;
  info.pQueueCreateInfos = queues.data();
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

Result<std::shared_ptr<Device>> Device::adopt(const ExternalDevice& given, VulkanTable table,
                                              const DeviceOptions& options) {
  ExternalDevice external = given;
  // One queue that is given twice has one lock.
  if (external.copy_queue && external.copy_queue == external.queue) external.copy_queue_family.reset();
  PUMICE_CHECK(check(options));
  PUMICE_CHECK(check_handles(external));
  PUMICE_TRY(std::shared_ptr<Instance> instance,
             Instance::adopt(external.instance, external.get_instance_proc_addr, table));
  if (!external.lock_queue != !external.unlock_queue) {
    return Error{Code::invalid_argument,
                 "an application's lock of its queue has only one of its two functions: give lock_queue and "
                 "unlock_queue, or neither"};
  }
  const Capabilities physical = read_capabilities(instance->table(), external.physical_device, 0);
  const Capabilities enabled = enabled_capabilities(instance->table(), external, physical);
  PUMICE_CHECK(check_usable(enabled));
  std::shared_ptr<Device> device(new Device(std::move(instance), enabled, options));
  device->owned_ = false;
  device->handle_ = external.device;
  for (Queue* queue : {&device->queue_, &device->copies_}) {
    queue->set_external_lock(external.lock_queue, external.unlock_queue);
  }
  device->notes_ = what_is_lost(physical, enabled);
  device->ask_for_matrices(options);
  PUMICE_CHECK(device->table_.load_device(device->handle_));
  const auto open = [&](Queue& queue, VkQueue handle, uint32_t family, const char* name) {
    if (external.submit) {
      queue.set_external_submit([submit = external.submit, family](const Submission& submission) {
        return submit(submission, family);
      });
    }
    return queue.open(external.submit ? VK_NULL_HANDLE : handle, family, name);
  };
  PUMICE_CHECK(open(device->queue_, external.queue, external.queue_family, "timeline"));
  if (external.copy_queue_family) {
    PUMICE_CHECK(
        open(device->copies_, external.copy_queue, *external.copy_queue_family, "timeline of copies"));
  }
  // A paused application submits nothing for as long as it likes.
  if (external.submit) device->patience_ = std::numeric_limits<double>::infinity();
  return device;
}

Device::Device(std::shared_ptr<Instance> instance, const Capabilities& chosen, const DeviceOptions& options)
    : instance_(std::move(instance)), table_(instance_->table()), capabilities_(chosen),
      patience_(options.patience > 0 ? options.patience
                : chosen.is_cpu()    ? cpu_patience
                                     : usual_patience),
      allocator_(options.allocator), memory_count_(options.memory_limit) {
  VkPhysicalDeviceMemoryProperties2 memory{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_PROPERTIES_2};
  table_.vkGetPhysicalDeviceMemoryProperties2(chosen.handle, &memory);
  memory_ = memory.memoryProperties;
}

Device::~Device() {
  if (!handle_ || !table_.vkDestroyDevice) return;
  // On an application's device wait only for our own submissions, not for its queues. On a lost device
  // waiting fails at once.
  if (owned_) {
    if (!hangs_) table_.vkDeviceWaitIdle(handle_);
  } else {
    (void)guarded([&] { return queue_.wait(); });
    (void)guarded([&] { return copies_.wait(); });
  }
  if (hangs_) {
    keep_forever(std::move(instance_));
    return;
  }
  queue_.close();
  copies_.close();
  if (owned_) table_.vkDestroyDevice(handle_, nullptr);
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

} // namespace pumice
