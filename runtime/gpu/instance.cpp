#include "gpu/instance.h"

#include <algorithm>
#include <cctype>
#include <cstring>

#include <fmt/format.h>

#include "base/ascii.h"
#include "base/guarded.h"

namespace pumice {

namespace {

constexpr const char* validation_layer = "VK_LAYER_KHRONOS_validation";

VKAPI_ATTR VkBool32 VKAPI_CALL on_validation_message(VkDebugUtilsMessageSeverityFlagBitsEXT,
                                                     VkDebugUtilsMessageTypeFlagsEXT,
                                                     const VkDebugUtilsMessengerCallbackDataEXT* data,
                                                     void* user) {
  const auto& log = *static_cast<const ValidationLog*>(user);
  // The driver calls this, and exceptions must not pass through it.
  (void)guarded([&] {
    if (log) log(data->pMessage ? data->pMessage : "a validation message without text");
  });
  return VK_FALSE;
}

VkDebugUtilsMessengerCreateInfoEXT messenger_info(ValidationLog* log) {
  VkDebugUtilsMessengerCreateInfoEXT info{VK_STRUCTURE_TYPE_DEBUG_UTILS_MESSENGER_CREATE_INFO_EXT};
  info.messageSeverity =
      VK_DEBUG_UTILS_MESSAGE_SEVERITY_WARNING_BIT_EXT | VK_DEBUG_UTILS_MESSAGE_SEVERITY_ERROR_BIT_EXT;
  info.messageType =
      VK_DEBUG_UTILS_MESSAGE_TYPE_VALIDATION_BIT_EXT | VK_DEBUG_UTILS_MESSAGE_TYPE_PERFORMANCE_BIT_EXT;
  info.pfnUserCallback = on_validation_message;
  info.pUserData = log;
  return info;
}

Result<bool> layer_is_installed(const VulkanTable& vk, const char* name) {
  uint32_t count = 0;
  if (VkResult result = vk.vkEnumerateInstanceLayerProperties(&count, nullptr); result < 0) {
    return vulkan_error("vkEnumerateInstanceLayerProperties", result);
  }
  std::vector<VkLayerProperties> layers(count);
  if (VkResult result = vk.vkEnumerateInstanceLayerProperties(&count, layers.data()); result < 0) {
    return vulkan_error("vkEnumerateInstanceLayerProperties", result);
  }
  return std::any_of(layers.begin(), layers.begin() + count,
                     [&](const VkLayerProperties& layer) { return !std::strcmp(layer.layerName, name); });
}

// Lower is better.
int rank(const Capabilities& device) {
  switch (device.type) {
  case VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU:
    return 0;
  case VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU:
    return 1;
  case VK_PHYSICAL_DEVICE_TYPE_VIRTUAL_GPU:
    return 2;
  case VK_PHYSICAL_DEVICE_TYPE_CPU:
    return 3;
  default:
    return 4;
  }
}

bool matches(const Capabilities& device, const std::string& name) {
  const bool is_index = name.size() < 6 && std::all_of(name.begin(), name.end(), ::isdigit);
  if (is_index) return device.index == static_cast<uint32_t>(std::stoul(name));
  std::string uuid = device.uuid_text();
  std::string plain = lower_case(name);
  if (plain == uuid) return true;
  std::erase(uuid, '-');
  if (plain == uuid) return true;
  return lower_case(device.name).find(plain) != std::string::npos;
}

} // namespace

Result<std::shared_ptr<Instance>> Instance::create(InstanceOptions options) {
  VulkanTable table = options.table;
  if (!table.vkGetInstanceProcAddr) {
    PUMICE_TRY(table.vkGetInstanceProcAddr, open_vulkan_loader(options.loader));
  }
  PUMICE_CHECK(table.load_global(table.vkGetInstanceProcAddr));

  uint32_t version = VK_API_VERSION_1_0;
  if (VkResult result = table.vkEnumerateInstanceVersion(&version); result != VK_SUCCESS) {
    return vulkan_error("vkEnumerateInstanceVersion", result);
  }
  if (version < VK_API_VERSION_1_2) {
    return Error{Code::unsupported,
                 fmt::format("the Vulkan loader is of version {}.{}; 1.2 or newer is needed",
                             VK_API_VERSION_MAJOR(version), VK_API_VERSION_MINOR(version))};
  }
  if (options.validate) {
    PUMICE_TRY(const bool installed, layer_is_installed(table, validation_layer));
    if (!installed) {
      return Error{Code::unsupported, "validation was asked for, and the Vulkan validation layers are not "
                                      "installed (Debian and Ubuntu: vulkan-validationlayers)"};
    }
  }

  std::shared_ptr<Instance> instance(new Instance);
  instance->validation_log_ = std::move(options.validation_log);

  VkApplicationInfo application{VK_STRUCTURE_TYPE_APPLICATION_INFO};
  application.pApplicationName = "pumice";
  application.pEngineName = "pumice";
  application.apiVersion = std::min<uint32_t>(version, VK_API_VERSION_1_3);
  VkInstanceCreateInfo info{VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO};
  info.pApplicationInfo = &application;

  // The last ones are done without first, where the loader does not know them.
  std::vector<const char*> extensions = {VK_EXT_DEBUG_UTILS_EXTENSION_NAME,
                                         VK_KHR_PORTABILITY_ENUMERATION_EXTENSION_NAME};
  const VkValidationFeatureEnableEXT synchronisation =
      VK_VALIDATION_FEATURE_ENABLE_SYNCHRONIZATION_VALIDATION_EXT;
  VkValidationFeaturesEXT features{VK_STRUCTURE_TYPE_VALIDATION_FEATURES_EXT};
  features.enabledValidationFeatureCount = 1;
  features.pEnabledValidationFeatures = &synchronisation;
  VkDebugUtilsMessengerCreateInfoEXT messenger = messenger_info(&instance->validation_log_);
  messenger.pNext = &features;
  if (options.validate) {
    info.pNext = &messenger;
    info.enabledLayerCount = 1;
    info.ppEnabledLayerNames = &validation_layer;
  }
  // Without the second extension, devices on top of another interface (MoltenVK) are not listed; without the
  // first, objects have no names. Trying to create the instance is quicker than asking first, because the
  // loader reads its drivers' lists each time.
  VkResult result = VK_ERROR_EXTENSION_NOT_PRESENT;
  const size_t least = options.validate ? 1 : 0;
  for (size_t count = extensions.size();; --count) {
    info.enabledExtensionCount = static_cast<uint32_t>(count);
    info.ppEnabledExtensionNames = extensions.data();
    info.flags = count > 1 ? VK_INSTANCE_CREATE_ENUMERATE_PORTABILITY_BIT_KHR : 0;
    result = table.vkCreateInstance(&info, nullptr, &instance->handle_);
    if (result != VK_ERROR_EXTENSION_NOT_PRESENT || count == least) break;
  }
  if (result != VK_SUCCESS) {
    if (result == VK_ERROR_INCOMPATIBLE_DRIVER) {
      return Error{Code::not_found,
                   "no usable Vulkan device: the Vulkan loader found no driver (Debian and Ubuntu: "
                   "install mesa-vulkan-drivers, or your graphics card's own driver)"};
    }
    return vulkan_error("vkCreateInstance", result);
  }
  instance->table_ = table;
  if (Status status = instance->table_.load_instance(instance->handle_); !status.ok()) return status.error();
  if (options.validate && instance->table_.vkCreateDebugUtilsMessengerEXT) {
    messenger.pNext = nullptr;
    instance->table_.vkCreateDebugUtilsMessengerEXT(instance->handle_, &messenger, nullptr,
                                                    &instance->messenger_);
  }
  PUMICE_CHECK(instance->enumerate_devices());
  return instance;
}

Result<std::shared_ptr<Instance>>
Instance::adopt(VkInstance handle, PFN_vkGetInstanceProcAddr get_instance_proc_addr, VulkanTable table) {
  if (!handle || !get_instance_proc_addr) {
    return Error{Code::invalid_argument,
                 "the application's Vulkan instance or its vkGetInstanceProcAddr is NULL: set both"};
  }
  std::shared_ptr<Instance> instance(new Instance);
  instance->owned_ = false;
  instance->handle_ = handle;
  instance->table_ = table;
  instance->table_.vkGetInstanceProcAddr = get_instance_proc_addr;
  PUMICE_CHECK(instance->table_.load_instance(handle));
  return instance;
}

Instance::~Instance() {
  if (messenger_) table_.vkDestroyDebugUtilsMessengerEXT(handle_, messenger_, nullptr);
  if (owned_ && handle_ && table_.vkDestroyInstance) table_.vkDestroyInstance(handle_, nullptr);
}

Status Instance::enumerate_devices() {
  uint32_t count = 0;
  if (VkResult result = table_.vkEnumeratePhysicalDevices(handle_, &count, nullptr); result < 0) {
    return vulkan_error("vkEnumeratePhysicalDevices", result);
  }
  std::vector<VkPhysicalDevice> handles(count);
  if (VkResult result = table_.vkEnumeratePhysicalDevices(handle_, &count, handles.data()); result < 0) {
    return vulkan_error("vkEnumeratePhysicalDevices", result);
  }
  for (uint32_t i = 0; i < count; ++i) devices_.push_back(read_capabilities(table_, handles[i], i));
  for (Capabilities& device : devices_) {
    for (const Capabilities& earlier : devices_) {
      if (earlier.index >= device.index) break;
      // The device UUID is the same whichever driver reports it; CPU drivers report a constant one.
      if (earlier.uuid == device.uuid && !device.is_cpu())
        device.duplicate_of = static_cast<int>(earlier.index);
    }
  }
  return {};
}

Result<Capabilities> Instance::choose(const std::string& name) const {
  const Capabilities* best = nullptr;
  Error error{Code::not_found, name.empty() ? "no usable Vulkan device on this machine"
                                            : fmt::format("no usable Vulkan device matches '{}'", name)};
  for (const Capabilities& device : devices_) {
    auto pass_over = [&](const std::string& why) {
      error.reasons.push_back(fmt::format("device {} ({}): {}", device.index, device.name, why));
    };
    if (!name.empty() && !matches(device, name)) {
      pass_over("does not match");
    } else if (!device.usable()) {
      for (const std::string& problem : device.problems) pass_over(problem);
    } else if (!best || rank(device) < rank(*best)) {
      best = &device;
    }
  }
  if (devices_.empty()) error.reasons.push_back("the Vulkan loader found no driver that reports a device");
  if (!best) return error;
  return *best;
}

} // namespace pumice
