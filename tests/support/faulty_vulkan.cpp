#include "support/faulty_vulkan.h"

#include <mutex>
#include <type_traits>

#include <doctest/doctest.h>

using namespace pumice;

namespace {

#define PUMICE_ALL_FUNCTIONS(F)                                                                              \
  PUMICE_VULKAN_GLOBAL(F)                                                                                    \
  PUMICE_VULKAN_INSTANCE(F)                                                                                  \
  PUMICE_VULKAN_INSTANCE_OPTIONAL(F)                                                                         \
  PUMICE_VULKAN_DEVICE(F)

enum Id : size_t {
#define PUMICE_ID(name) id_##name,
  PUMICE_ALL_FUNCTIONS(PUMICE_ID)
#undef PUMICE_ID
      id_count
};

struct State {
  PFN_vkVoidFunction real[id_count] = {};
  std::vector<FaultyVulkan::Function> functions{id_count};
  std::mutex mutex; // pipelines are made by several threads
  size_t function = id_count;
  int call = 0;
  VkResult error = VK_SUCCESS;
  bool failed = false;
} state;

// The error of this call, or success where it is to reach the driver.
VkResult count_call(size_t id) {
  std::lock_guard lock(state.mutex);
  const int call = state.functions[id].calls++;
  if (id != state.function || call != state.call) return VK_SUCCESS;
  state.failed = true;
  return state.error;
}

template <size_t id, class Function>
struct Wrapped;
template <size_t id, class... Arguments>
struct Wrapped<id, VkResult(VKAPI_PTR*)(Arguments...)> {
  static VKAPI_ATTR VkResult VKAPI_CALL call(Arguments... arguments) {
    if (const VkResult error = count_call(id); error != VK_SUCCESS) return error;
    return reinterpret_cast<VkResult(VKAPI_PTR*)(Arguments...)>(state.real[id])(arguments...);
  }
};

template <class Function>
struct ReturnsResult : std::false_type {};
template <class... Arguments>
struct ReturnsResult<VkResult(VKAPI_PTR*)(Arguments...)> : std::true_type {};

template <size_t id, class Function>
void wrap(Function& member, const char* name, PFN_vkVoidFunction real) {
  state.real[id] = real;
  state.functions[id].name = name;
  if constexpr (ReturnsResult<Function>::value) {
    if (real) member = Wrapped<id, Function>::call;
  }
}

std::vector<VkResult> errors_of(size_t id) {
  std::vector<VkResult> errors = {VK_ERROR_OUT_OF_HOST_MEMORY, VK_ERROR_OUT_OF_DEVICE_MEMORY};
  const auto also = [&](std::initializer_list<VkResult> more) {
    errors.insert(errors.end(), more.begin(), more.end());
    return errors;
  };
  switch (id) {
  case id_vkCreateInstance:
    return also({VK_ERROR_INITIALIZATION_FAILED, VK_ERROR_LAYER_NOT_PRESENT, VK_ERROR_EXTENSION_NOT_PRESENT,
                 VK_ERROR_INCOMPATIBLE_DRIVER});
  case id_vkEnumeratePhysicalDevices:
    return also({VK_ERROR_INITIALIZATION_FAILED});
  case id_vkCreateDevice:
    return also({VK_ERROR_INITIALIZATION_FAILED, VK_ERROR_EXTENSION_NOT_PRESENT, VK_ERROR_FEATURE_NOT_PRESENT,
                 VK_ERROR_TOO_MANY_OBJECTS, VK_ERROR_DEVICE_LOST});
  case id_vkQueueSubmit:
  case id_vkQueueWaitIdle:
  case id_vkDeviceWaitIdle:
  case id_vkWaitSemaphores:
  case id_vkGetSemaphoreCounterValue:
  case id_vkGetQueryPoolResults:
    return also({VK_ERROR_DEVICE_LOST});
  case id_vkAllocateMemory:
    return also({VK_ERROR_TOO_MANY_OBJECTS});
  case id_vkMapMemory:
    return also({VK_ERROR_MEMORY_MAP_FAILED});
  case id_vkCreateDescriptorPool:
    return also({VK_ERROR_FRAGMENTATION});
  case id_vkAllocateDescriptorSets:
    return also({VK_ERROR_FRAGMENTED_POOL, VK_ERROR_OUT_OF_POOL_MEMORY});
  case id_vkCreateComputePipelines:
    return also({VK_ERROR_INVALID_SHADER_NV});
  default:
    return errors;
  }
}

} // namespace

FaultyVulkan::FaultyVulkan() {
  const auto loader = open_vulkan_loader();
  if (!loader.ok()) FAIL(loader.error().text());
  table_.vkGetInstanceProcAddr = *loader;
  // The loader's own functions serve every instance and device: they look up the right layer by the handle.
  static VkInstance any = VK_NULL_HANDLE;
  if (!any) {
    VkApplicationInfo application{VK_STRUCTURE_TYPE_APPLICATION_INFO};
    application.apiVersion = VK_API_VERSION_1_3;
    const VkInstanceCreateInfo info{VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO, nullptr, 0, &application};
    const auto create = reinterpret_cast<PFN_vkCreateInstance>((*loader)(VK_NULL_HANDLE, "vkCreateInstance"));
    REQUIRE(create(&info, nullptr, &any) == VK_SUCCESS);
  }
#define PUMICE_WRAP_GLOBAL(name) wrap<id_##name>(table_.name, #name, (*loader)(VK_NULL_HANDLE, #name));
#define PUMICE_WRAP(name) wrap<id_##name>(table_.name, #name, (*loader)(any, #name));
  PUMICE_VULKAN_GLOBAL(PUMICE_WRAP_GLOBAL)
  PUMICE_VULKAN_INSTANCE(PUMICE_WRAP)
  PUMICE_VULKAN_DEVICE(PUMICE_WRAP)
  for (size_t id = 0; id < id_count; ++id) state.functions[id].errors = errors_of(id);
  reset();
}

const std::vector<FaultyVulkan::Function>& FaultyVulkan::functions() const {
  return state.functions;
}

void FaultyVulkan::reset() {
  fail(id_count, 0, VK_SUCCESS);
}

void FaultyVulkan::fail(size_t function, int call, VkResult error) {
  for (Function& counted : state.functions) counted.calls = 0;
  state.function = function;
  state.call = call;
  state.error = error;
  state.failed = false;
}

bool FaultyVulkan::failed() const {
  return state.failed;
}
