#include "gpu/vulkan_table.h"

#include <array>

#include <fmt/format.h>

#ifdef _WIN32
#include <windows.h>
#else
#include <dlfcn.h>
#endif

namespace pumice {

namespace {

Error missing_function(const char* name, const char* level) {
  return {Code::unsupported,
          fmt::format("the Vulkan {} offers no {}: Vulkan 1.2 or newer is needed, or the extensions that "
                      "pumice_features_create names",
                      level, name)};
}

void* open_library(const char* name) {
#ifdef _WIN32
  return reinterpret_cast<void*>(LoadLibraryA(name));
#else
  return dlopen(name, RTLD_NOW | RTLD_LOCAL);
#endif
}

void* find_symbol(void* library, const char* name) {
#ifdef _WIN32
  return reinterpret_cast<void*>(GetProcAddress(static_cast<HMODULE>(library), name));
#else
  return dlsym(library, name);
#endif
}

} // namespace

#define PUMICE_LOAD(name, lookup, level)                                                                     \
  if (!name) name = reinterpret_cast<PFN_##name>(lookup(#name));                                             \
  if (!name) return missing_function(#name, level);

#define PUMICE_LOAD_OPTIONAL(name)                                                                           \
  if (!name) name = reinterpret_cast<PFN_##name>(lookup(#name));

Status VulkanTable::load_global(PFN_vkGetInstanceProcAddr get_instance_proc_addr) {
  vkGetInstanceProcAddr = get_instance_proc_addr;
  auto lookup = [&](const char* name) { return vkGetInstanceProcAddr(VK_NULL_HANDLE, name); };
#define PUMICE_LOAD_GLOBAL(name) PUMICE_LOAD(name, lookup, "loader")
  PUMICE_VULKAN_GLOBAL(PUMICE_LOAD_GLOBAL)
  return {};
}

Status VulkanTable::load_instance(VkInstance instance) {
  auto lookup = [&](const char* name) { return vkGetInstanceProcAddr(instance, name); };
#define PUMICE_LOAD_INSTANCE(name) PUMICE_LOAD(name, lookup, "instance")
  PUMICE_VULKAN_INSTANCE(PUMICE_LOAD_INSTANCE)
  PUMICE_VULKAN_INSTANCE_OPTIONAL(PUMICE_LOAD_OPTIONAL)
  return {};
}

Status VulkanTable::load_device(VkDevice device) {
  auto lookup = [&](const char* name) { return vkGetDeviceProcAddr(device, name); };
#define PUMICE_LOAD_DEVICE(name) PUMICE_LOAD(name, lookup, "device")
#define PUMICE_LOAD_12(name)                                                                                 \
  PUMICE_LOAD_OPTIONAL(name)                                                                                 \
  if (!name) name = reinterpret_cast<PFN_##name>(lookup(#name "KHR"));
#define PUMICE_REQUIRE_12(name)                                                                              \
  PUMICE_LOAD_12(name)                                                                                       \
  if (!name) return missing_function(#name, "device");
  PUMICE_VULKAN_DEVICE(PUMICE_LOAD_DEVICE)
  PUMICE_VULKAN_DEVICE_12(PUMICE_REQUIRE_12)
  PUMICE_VULKAN_DEVICE_12_OPTIONAL(PUMICE_LOAD_12)
  PUMICE_VULKAN_DEVICE_OPTIONAL(PUMICE_LOAD_OPTIONAL)
  return {};
}

Result<PFN_vkGetInstanceProcAddr> open_vulkan_loader(const std::string& library) {
#if defined(_WIN32)
  std::vector<std::string> names = {"vulkan-1.dll"};
#elif defined(__APPLE__)
  std::vector<std::string> names = {"libvulkan.1.dylib", "libvulkan.dylib", "libMoltenVK.dylib"};
#else
  std::vector<std::string> names = {"libvulkan.so.1", "libvulkan.so"};
#endif
  if (!library.empty()) names = {library};

  Error error{Code::not_found,
              "no Vulkan loader on this machine: install one (Debian and Ubuntu: libvulkan1 and "
              "mesa-vulkan-drivers), or a graphics driver that brings it"};
  for (const std::string& name : names) {
    void* handle = open_library(name.c_str());
    if (!handle) {
      error.reasons.push_back(name + ": cannot be opened");
      continue;
    }
    auto entry = reinterpret_cast<PFN_vkGetInstanceProcAddr>(find_symbol(handle, "vkGetInstanceProcAddr"));
    if (entry) return entry;
    error.reasons.push_back(name + ": has no vkGetInstanceProcAddr");
  }
  return error;
}

Error vulkan_error(const char* call, VkResult result) {
  struct Meaning {
    VkResult result;
    const char* name;
    const char* sentence;
    Code code;
  };
  static constexpr std::array meanings = {
      Meaning{VK_ERROR_OUT_OF_HOST_MEMORY, "VK_ERROR_OUT_OF_HOST_MEMORY", "out of host memory",
              Code::out_of_memory},
      Meaning{VK_ERROR_OUT_OF_DEVICE_MEMORY, "VK_ERROR_OUT_OF_DEVICE_MEMORY", "out of device memory",
              Code::out_of_memory},
      Meaning{VK_ERROR_INITIALIZATION_FAILED, "VK_ERROR_INITIALIZATION_FAILED", "the driver did not start",
              Code::unsupported},
      Meaning{VK_ERROR_DEVICE_LOST, "VK_ERROR_DEVICE_LOST", "the device was lost", Code::device_lost},
      Meaning{VK_ERROR_MEMORY_MAP_FAILED, "VK_ERROR_MEMORY_MAP_FAILED", "memory could not be mapped",
              Code::out_of_memory},
      Meaning{VK_ERROR_LAYER_NOT_PRESENT, "VK_ERROR_LAYER_NOT_PRESENT", "a layer is not installed",
              Code::unsupported},
      Meaning{VK_ERROR_EXTENSION_NOT_PRESENT, "VK_ERROR_EXTENSION_NOT_PRESENT", "an extension is missing",
              Code::unsupported},
      Meaning{VK_ERROR_FEATURE_NOT_PRESENT, "VK_ERROR_FEATURE_NOT_PRESENT", "a feature is missing",
              Code::unsupported},
      Meaning{VK_ERROR_INCOMPATIBLE_DRIVER, "VK_ERROR_INCOMPATIBLE_DRIVER",
              "no installed driver supports Vulkan", Code::unsupported},
      Meaning{VK_ERROR_TOO_MANY_OBJECTS, "VK_ERROR_TOO_MANY_OBJECTS", "too many objects of one kind",
              Code::out_of_memory},
      Meaning{VK_ERROR_FRAGMENTATION, "VK_ERROR_FRAGMENTATION", "a pool's memory is in pieces",
              Code::out_of_memory},
      Meaning{VK_ERROR_FRAGMENTED_POOL, "VK_ERROR_FRAGMENTED_POOL", "what is left of a pool is in pieces",
              Code::out_of_memory},
      Meaning{VK_ERROR_OUT_OF_POOL_MEMORY, "VK_ERROR_OUT_OF_POOL_MEMORY", "a pool is used up",
              Code::out_of_memory},
      Meaning{VK_ERROR_INVALID_SHADER_NV, "VK_ERROR_INVALID_SHADER_NV", "the driver refused a shader",
              Code::internal},
      Meaning{VK_ERROR_INVALID_EXTERNAL_HANDLE, "VK_ERROR_INVALID_EXTERNAL_HANDLE",
              "memory of the host cannot be the device's", Code::unsupported},
      Meaning{VK_TIMEOUT, "VK_TIMEOUT", "the device did not finish in time", Code::device_lost},
  };
  for (const Meaning& meaning : meanings) {
    if (meaning.result == result) {
      return {meaning.code, fmt::format("{}: {} ({})", call, meaning.sentence, meaning.name)};
    }
  }
  return {Code::internal, fmt::format("{}: Vulkan error {}", call, static_cast<int>(result))};
}

} // namespace pumice
