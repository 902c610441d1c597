#include "device.h"

#include <algorithm>
#include <optional>
#include <string_view>

#include "failure.h"

namespace npc {

namespace {

bool has_extension(const VulkanFunctions& vk, VkPhysicalDevice device, std::string_view name) {
  uint32_t count = 0;
  vk.vkEnumerateDeviceExtensionProperties(device, nullptr, &count, nullptr);
  std::vector<VkExtensionProperties> extensions(count);
  vk.vkEnumerateDeviceExtensionProperties(device, nullptr, &count, extensions.data());
  return std::ranges::any_of(
      extensions, [&](const VkExtensionProperties& extension) { return extension.extensionName == name; });
}

bool has_timeline_semaphores(const VulkanFunctions& vk, VkPhysicalDevice device) {
  VkPhysicalDeviceVulkan12Features v12{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES};
  VkPhysicalDeviceFeatures2 features{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2, &v12};
  vk.vkGetPhysicalDeviceFeatures2(device, &features);
  return v12.timelineSemaphore;
}

std::vector<VkQueueFamilyProperties> queue_families(const VulkanFunctions& vk, VkPhysicalDevice device) {
  uint32_t count = 0;
  vk.vkGetPhysicalDeviceQueueFamilyProperties(device, &count, nullptr);
  std::vector<VkQueueFamilyProperties> families(count);
  vk.vkGetPhysicalDeviceQueueFamilyProperties(device, &count, families.data());
  return families;
}

// A queue family that can draw and compute, and show on the surface if there is one.
std::optional<uint32_t> usable_family(const VulkanFunctions& vk, VkPhysicalDevice device,
                                      VkSurfaceKHR surface) {
  constexpr VkQueueFlags needed = VK_QUEUE_GRAPHICS_BIT | VK_QUEUE_COMPUTE_BIT;
  const auto families = queue_families(vk, device);
  for (uint32_t family = 0; family < families.size(); ++family) {
    VkBool32 shows = VK_TRUE;
    if (surface) vk.vkGetPhysicalDeviceSurfaceSupportKHR(device, family, surface, &shows);
    if ((families[family].queueFlags & needed) == needed && shows) return family;
  }
  return {};
}

int rank(VkPhysicalDeviceType type) {
  return type == VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU     ? 3
         : type == VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU ? 2
         : type == VK_PHYSICAL_DEVICE_TYPE_VIRTUAL_GPU    ? 1
                                                          : 0;
}

} // namespace

Device::Device(const Instance& instance, VkSurfaceKHR surface, const std::string& name)
    : instance_(instance), vk_(instance.functions()) {
  choose(surface, name);
  enable_features(surface != VK_NULL_HANDLE);
  create();
}

void Device::choose(VkSurfaceKHR surface, const std::string& name) {
  uint32_t count = 0;
  check(vk_.vkEnumeratePhysicalDevices(instance_.handle(), &count, nullptr), "listing Vulkan devices");
  std::vector<VkPhysicalDevice> devices(count);
  check(vk_.vkEnumeratePhysicalDevices(instance_.handle(), &count, devices.data()), "listing Vulkan devices");

  std::string reasons;
  for (VkPhysicalDevice device : devices) {
    VkPhysicalDeviceProperties properties;
    vk_.vkGetPhysicalDeviceProperties(device, &properties);
    const auto family = usable_family(vk_, device, surface);
    const char* reason = nullptr;
    if (std::string_view(properties.deviceName).find(name) == std::string_view::npos)
      reason = "has another name";
    else if (properties.apiVersion < VK_API_VERSION_1_2)
      reason = "has no Vulkan 1.2";
    else if (!has_timeline_semaphores(vk_, device))
      reason = "has no timeline semaphores";
    else if (!family)
      reason = "has no queue that can draw, compute and show";
    else if (surface && !has_extension(vk_, device, VK_KHR_SWAPCHAIN_EXTENSION_NAME))
      reason = "has no swapchains";
    if (reason) {
      reasons += fmt::format("\n  {} {}", properties.deviceName, reason);
    } else if (!physical_ || rank(properties.deviceType) > rank(properties_.deviceType)) {
      physical_ = device;
      properties_ = properties;
      family_ = *family;
    }
  }
  if (!physical_) throw Failure("there is no Vulkan device to draw with" + reasons);
}

// The demo itself needs no features. Pumice knows which ones make its kernels fast on this device.
void Device::enable_features(bool swapchain) {
  pumice_features* made = nullptr;
  pumice_error error;
  if (pumice_features_create(vk_.vkGetInstanceProcAddr, instance_.handle(), physical_, nullptr, &made,
                             &error) != PUMICE_OK)
    throw Failure(error.message);
  features_.reset(made);
  uint32_t count = 0;
  const char* const* names = pumice_features_extensions(made, &count);
  extensions_.assign(names, names + count);
  if (swapchain) extensions_.push_back(VK_KHR_SWAPCHAIN_EXTENSION_NAME);
}

void Device::create() {
  const float priority = 1;
  VkDeviceQueueCreateInfo queue{VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO};
  queue.queueFamilyIndex = family_;
  queue.queueCount = 1;
  queue.pQueuePriorities = &priority;
  VkDeviceCreateInfo info{VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO};
  info.pNext = features();
  info.queueCreateInfoCount = 1;
  info.pQueueCreateInfos = &queue;
  info.enabledExtensionCount = static_cast<uint32_t>(extensions_.size());
  info.ppEnabledExtensionNames = extensions_.data();
  check(vk_.vkCreateDevice(physical_, &info, nullptr, &device_), "making a Vulkan device");

#define NPC_LOAD(name) vk_.name = reinterpret_cast<PFN_##name>(vk_.vkGetDeviceProcAddr(device_, #name));
  NPC_DEVICE_FUNCTIONS(NPC_LOAD)
  NPC_SWAPCHAIN_FUNCTIONS(NPC_LOAD)
#undef NPC_LOAD
  vk_.vkGetDeviceQueue(device_, family_, 0, &queue_);
  vk_.vkGetPhysicalDeviceMemoryProperties(physical_, &memory_);
  const uint32_t bits = queue_families(vk_, physical_)[family_].timestampValidBits;
  tick_us_ = bits > 0 ? properties_.limits.timestampPeriod / 1000.0 : 0;
  tick_mask_ = bits < 64 ? (uint64_t{1} << bits) - 1 : ~uint64_t{0};
}

Device::~Device() {
  vk_.vkDestroyDevice(device_, nullptr);
}

const void* Device::features() const {
  return pumice_features_chain(features_.get());
}

uint32_t Device::memory_type(uint32_t bits, VkMemoryPropertyFlags flags) const {
  for (uint32_t type = 0; type < memory_.memoryTypeCount; ++type)
    if ((bits >> type & 1) && (memory_.memoryTypes[type].propertyFlags & flags) == flags) return type;
  throw Failure("the device has no memory of the required type");
}

void Device::wait() const {
  const std::lock_guard lock(queue_lock_);
  check(vk_.vkDeviceWaitIdle(device_), "waiting for the device");
}

} // namespace npc
