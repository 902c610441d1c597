#include "support/vulkan/faulty_vulkan.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <set>
#include <string_view>
#include <type_traits>

#include <doctest/doctest.h>

#include "support/vulkan/drivers.h"
#include "support/vulkan/mapped_memory.h"

using namespace pumice;

namespace {

#define PUMICE_ALL_FUNCTIONS(F)                                                                              \
  PUMICE_VULKAN_GLOBAL(F)                                                                                    \
  PUMICE_VULKAN_INSTANCE(F)                                                                                  \
  PUMICE_VULKAN_INSTANCE_OPTIONAL(F)                                                                         \
  PUMICE_VULKAN_DEVICE(F)                                                                                    \
  PUMICE_VULKAN_DEVICE_12(F)                                                                                 \
  PUMICE_VULKAN_DEVICE_12_OPTIONAL(F)                                                                        \
  PUMICE_VULKAN_DEVICE_OPTIONAL(F)

enum Id : size_t {
#define PUMICE_ID(name) id_##name,
  PUMICE_ALL_FUNCTIONS(PUMICE_ID)
#undef PUMICE_ID
      id_count
};

constexpr const char* names[] = {
#define PUMICE_NAME(name) #name,
    PUMICE_ALL_FUNCTIONS(PUMICE_NAME)
#undef PUMICE_NAME
};

size_t id_of(std::string_view name) {
  return static_cast<size_t>(std::ranges::find(names, name) - std::begin(names));
}

struct State {
  PFN_vkGetInstanceProcAddr loader = nullptr;
  std::mutex mutex; // guards all members below
  PFN_vkVoidFunction real[id_count] = {};
  std::vector<FaultyVulkan::Function> functions{id_count};
  bool counting = false;
  size_t function = id_count; // the one that fails
  int call = 0;
  VkResult error = VK_SUCCESS;
  bool failed = false;
  bool split_memory = false;
  uint32_t real_type = 0; // that both kinds of split memory stand for
  bool refuse_imports = false;
  std::map<VkQueue, VkDevice> devices;
  std::set<VkDevice> lost;
} state;

template <size_t id, class Function>
Function real_function() {
  std::lock_guard lock(state.mutex);
  return reinterpret_cast<Function>(state.real[id]);
}
#define PUMICE_REAL(name) real_function<id_##name, PFN_##name>()

// The device that a call is about, if the call can find that the device is lost.
VkDevice device_of(VkDevice device) {
  return device;
}
VkDevice device_of(VkQueue queue) {
  std::lock_guard lock(state.mutex);
  const auto found = state.devices.find(queue);
  return found == state.devices.end() ? VK_NULL_HANDLE : found->second;
}
template <class Handle>
VkDevice device_of(Handle) {
  return VK_NULL_HANDLE;
}

// The error that this call returns, or success if it goes to the driver.
VkResult count_call(size_t id, VkDevice device) {
  std::unique_lock lock(state.mutex);
  FaultyVulkan::Function& function = state.functions[id];
  const bool fails = state.counting && id == state.function && function.calls == state.call;
  if (state.counting) ++function.calls;
  if (fails) state.failed = true;
  if (fails && (state.error != VK_ERROR_DEVICE_LOST || !device)) return state.error;
  const bool was_lost = state.lost.contains(device);
  if (fails && !was_lost) {
    state.lost.insert(device);
    lock.unlock();
    // Nothing runs on a lost device.
    PUMICE_REAL(vkDeviceWaitIdle)(device);
  }
  const bool knows = std::ranges::find(function.errors, VK_ERROR_DEVICE_LOST) != function.errors.end();
  return (fails || was_lost) && knows ? VK_ERROR_DEVICE_LOST : VK_SUCCESS;
}

template <size_t id, class Function>
struct Wrapped {
  static constexpr bool returns_result = false;
  static PFN_vkVoidFunction pointer() { return nullptr; }
};
template <size_t id, class First, class... Arguments>
struct Wrapped<id, VkResult(VKAPI_PTR*)(First, Arguments...)> {
  static constexpr bool returns_result = true;
  using Function = VkResult(VKAPI_PTR*)(First, Arguments...);
  static VKAPI_ATTR VkResult VKAPI_CALL call(First first, Arguments... arguments) {
    if (const VkResult error = count_call(id, device_of(first)); error != VK_SUCCESS) return error;
    return real_function<id, Function>()(first, arguments...);
  }
  static PFN_vkVoidFunction pointer() { return reinterpret_cast<PFN_vkVoidFunction>(call); }
};

VKAPI_ATTR void VKAPI_CALL get_queue(VkDevice device, uint32_t family, uint32_t index, VkQueue* queue) {
  PUMICE_REAL(vkGetDeviceQueue)(device, family, index, queue);
  std::lock_guard lock(state.mutex);
  state.devices[*queue] = device;
}

VKAPI_ATTR void VKAPI_CALL destroy_device(VkDevice device, const VkAllocationCallbacks* callbacks) {
  {
    std::lock_guard lock(state.mutex);
    state.lost.erase(device);
    std::erase_if(state.devices, [&](const auto& entry) { return entry.second == device; });
  }
  PUMICE_REAL(vkDestroyDevice)(device, callbacks);
}

// Memory type 0 is the device's, type 1 the host's; both stand for a real type that the host can map.
VKAPI_ATTR void VKAPI_CALL memory_properties(VkPhysicalDevice device,
                                             VkPhysicalDeviceMemoryProperties2* properties) {
  PUMICE_REAL(vkGetPhysicalDeviceMemoryProperties2)(device, properties);
  VkPhysicalDeviceMemoryProperties& memory = properties->memoryProperties;
  state.real_type = mapped_memory_type(memory);
  memory.memoryTypeCount = memory.memoryHeapCount = 2;
  memory.memoryTypes[0] = {VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT, 0};
  memory.memoryTypes[1] = {VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT, 1};
  memory.memoryHeaps[0] = {uint64_t{1} << 32, VK_MEMORY_HEAP_DEVICE_LOCAL_BIT};
  memory.memoryHeaps[1] = {uint64_t{1} << 32, 0};
}
VKAPI_ATTR void VKAPI_CALL either_memory(VkDevice device, VkBuffer buffer,
                                         VkMemoryRequirements* requirements) {
  PUMICE_REAL(vkGetBufferMemoryRequirements)(device, buffer, requirements);
  requirements->memoryTypeBits = 3;
}
VKAPI_ATTR VkResult VKAPI_CALL allocate_mapped(VkDevice device, const VkMemoryAllocateInfo* info,
                                               const VkAllocationCallbacks* callbacks,
                                               VkDeviceMemory* memory) {
  if (const VkResult error = count_call(id_vkAllocateMemory, device); error != VK_SUCCESS) return error;
  VkMemoryAllocateInfo real = *info;
  real.memoryTypeIndex = state.real_type;
  return PUMICE_REAL(vkAllocateMemory)(device, &real, callbacks, memory);
}

VKAPI_ATTR VkResult VKAPI_CALL host_pointer_properties(VkDevice device,
                                                       VkExternalMemoryHandleTypeFlagBits type,
                                                       const void* pointer,
                                                       VkMemoryHostPointerPropertiesEXT* properties) {
  if (const VkResult error = count_call(id_vkGetMemoryHostPointerPropertiesEXT, device); error != VK_SUCCESS)
    return error;
  const VkResult result = PUMICE_REAL(vkGetMemoryHostPointerPropertiesEXT)(device, type, pointer, properties);
  std::lock_guard lock(state.mutex);
  if (state.refuse_imports) properties->memoryTypeBits = 0;
  return result;
}

template <class Function>
PFN_vkVoidFunction untyped(Function function) {
  return reinterpret_cast<PFN_vkVoidFunction>(function);
}

VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL get_device_proc_addr(VkDevice device, const char* name);

// The function that replaces a real one; null: the real one is used.
PFN_vkVoidFunction replacement(size_t id) {
  static constexpr PFN_vkVoidFunction (*wrapped[])() = {
#define PUMICE_WRAPPED(name) Wrapped<id_##name, PFN_##name>::pointer,
      PUMICE_ALL_FUNCTIONS(PUMICE_WRAPPED)
#undef PUMICE_WRAPPED
  };
  const bool split = state.split_memory;
  switch (id) {
  case id_vkGetDeviceProcAddr:
    return untyped(get_device_proc_addr);
  case id_vkGetDeviceQueue:
    return untyped(get_queue);
  case id_vkDestroyDevice:
    return untyped(destroy_device);
  case id_vkGetPhysicalDeviceMemoryProperties2:
    return split ? untyped(memory_properties) : nullptr;
  case id_vkGetBufferMemoryRequirements:
    return split ? untyped(either_memory) : nullptr;
  case id_vkAllocateMemory:
    return split ? untyped(allocate_mapped) : wrapped[id]();
  case id_vkGetMemoryHostPointerPropertiesEXT:
    return untyped(host_pointer_properties);
  default:
    return wrapped[id]();
  }
}

PFN_vkVoidFunction replace(const char* name, PFN_vkVoidFunction real) {
  const size_t id = id_of(name);
  if (!real || id == id_count) return real;
  std::lock_guard lock(state.mutex);
  // Functions of extensions exist only after an instance has enabled them.
  if (!state.real[id]) state.real[id] = real;
  const PFN_vkVoidFunction other = replacement(id);
  return other ? other : real;
}

VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL get_device_proc_addr(VkDevice device, const char* name) {
  return replace(name, PUMICE_REAL(vkGetDeviceProcAddr)(device, name));
}

// The errors that the specification's registry (vk.xml) lists, without those of features that Pumice does not
// use. VK_ERROR_TOO_MANY_OBJECTS of vkAllocateMemory comes from the specification's text.
std::vector<VkResult> errors_of(size_t id) {
  constexpr VkResult host = VK_ERROR_OUT_OF_HOST_MEMORY, device = VK_ERROR_OUT_OF_DEVICE_MEMORY;
  switch (id) {
  case id_vkEnumerateInstanceVersion:
  case id_vkCreateDebugUtilsMessengerEXT:
    return {host};
  case id_vkSetDebugUtilsObjectNameEXT:
    return {host, device};
  case id_vkResetCommandPool:
  case id_vkResetEvent:
    return {device};
  case id_vkEnumerateInstanceLayerProperties:
  case id_vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR:
  case id_vkGetPhysicalDeviceCooperativeMatrixFlexibleDimensionsPropertiesNV:
  case id_vkCreateBuffer:
  case id_vkCreateBufferView:
  case id_vkBindBufferMemory:
  case id_vkCreateSemaphore:
  case id_vkCreateEvent:
  case id_vkCreateQueryPool:
  case id_vkCreateDescriptorSetLayout:
  case id_vkCreatePipelineLayout:
  case id_vkCreatePipelineCache:
  case id_vkGetPipelineCacheData:
  case id_vkCreateCommandPool:
  case id_vkAllocateCommandBuffers:
  case id_vkBeginCommandBuffer:
  case id_vkEndCommandBuffer:
    return {host, device};
  case id_vkEnumerateInstanceExtensionProperties:
  case id_vkEnumerateDeviceExtensionProperties:
    return {host, device, VK_ERROR_LAYER_NOT_PRESENT};
  case id_vkCreateInstance:
    return {host,
            device,
            VK_ERROR_INITIALIZATION_FAILED,
            VK_ERROR_LAYER_NOT_PRESENT,
            VK_ERROR_EXTENSION_NOT_PRESENT,
            VK_ERROR_INCOMPATIBLE_DRIVER};
  case id_vkEnumeratePhysicalDevices:
    return {host, device, VK_ERROR_INITIALIZATION_FAILED};
  case id_vkCreateDevice:
    return {host,
            device,
            VK_ERROR_INITIALIZATION_FAILED,
            VK_ERROR_EXTENSION_NOT_PRESENT,
            VK_ERROR_FEATURE_NOT_PRESENT,
            VK_ERROR_TOO_MANY_OBJECTS,
            VK_ERROR_DEVICE_LOST};
  case id_vkQueueSubmit:
  case id_vkQueueWaitIdle:
  case id_vkDeviceWaitIdle:
  case id_vkWaitSemaphores:
  case id_vkGetSemaphoreCounterValue:
  case id_vkGetEventStatus:
    return {host, device, VK_ERROR_DEVICE_LOST};
  case id_vkGetMemoryHostPointerPropertiesEXT:
    return {host, VK_ERROR_INVALID_EXTERNAL_HANDLE};
  case id_vkAllocateMemory:
    return {host, device, VK_ERROR_TOO_MANY_OBJECTS};
  case id_vkMapMemory:
    return {host, device, VK_ERROR_MEMORY_MAP_FAILED};
  case id_vkCreateShaderModule:
  case id_vkCreateComputePipelines:
    return {host, device, VK_ERROR_INVALID_SHADER_NV};
  case id_vkCreateDescriptorPool:
    return {host, device, VK_ERROR_FRAGMENTATION};
  case id_vkAllocateDescriptorSets:
    return {host, device, VK_ERROR_FRAGMENTED_POOL, VK_ERROR_OUT_OF_POOL_MEMORY};
  default:
    return {};
  }
}

template <size_t id, class Function>
void describe() {
  FaultyVulkan::Function& function = state.functions[id];
  function.name = names[id];
  function.errors = errors_of(id);
  INFO(function.name);
  REQUIRE(function.errors.empty() == !Wrapped<id, Function>::returns_result);
}

} // namespace

FaultyVulkan::FaultyVulkan() {
  const auto loader = open_vulkan_loader();
  if (!loader.ok()) FAIL(loader.error().text());
  state.loader = *loader;
  // The loader's own functions serve every instance and device: they look up the right layer by the handle.
  const VkInstance any = resident_instance();
  REQUIRE(any);
#define PUMICE_FIND_GLOBAL(name) state.real[id_##name] = (*loader)(VK_NULL_HANDLE, #name);
#define PUMICE_FIND(name) state.real[id_##name] = (*loader)(any, #name);
  PUMICE_VULKAN_GLOBAL(PUMICE_FIND_GLOBAL)
  PUMICE_VULKAN_INSTANCE(PUMICE_FIND)
  PUMICE_VULKAN_DEVICE(PUMICE_FIND)
  PUMICE_VULKAN_DEVICE_12(PUMICE_FIND)
  PUMICE_VULKAN_DEVICE_12_OPTIONAL(PUMICE_FIND)
  PUMICE_VULKAN_DEVICE_OPTIONAL(PUMICE_FIND)
#define PUMICE_DESCRIBE(name) describe<id_##name, PFN_##name>();
  PUMICE_ALL_FUNCTIONS(PUMICE_DESCRIBE)
  rest();
}

pumice_function FaultyVulkan::get_instance_proc_addr(VkInstance instance, const char* name) {
  if (std::string_view(name) == "vkGetInstanceProcAddr") return untyped(get_instance_proc_addr);
  return replace(name, state.loader(instance, name));
}

std::vector<FaultyVulkan::Function> FaultyVulkan::functions() const {
  std::lock_guard lock(state.mutex);
  return state.functions;
}

void FaultyVulkan::count() {
  fail(id_count, 0, VK_SUCCESS);
}

void FaultyVulkan::fail(size_t function, int call, VkResult error) {
  std::lock_guard lock(state.mutex);
  for (Function& counted : state.functions) counted.calls = 0;
  state.function = function;
  state.call = call;
  state.error = error;
  state.failed = false;
  state.counting = true;
}

void FaultyVulkan::fail_next(const std::string& function, VkResult error) {
  REQUIRE(id_of(function) < id_count);
  fail(id_of(function), 0, error);
}

bool FaultyVulkan::failed() const {
  std::lock_guard lock(state.mutex);
  return state.failed;
}

void FaultyVulkan::rest() {
  std::lock_guard lock(state.mutex);
  state.counting = false;
}

void FaultyVulkan::split_memory(bool split) {
  std::lock_guard lock(state.mutex);
  state.split_memory = split;
}

void FaultyVulkan::refuse_imports(bool refuse) {
  std::lock_guard lock(state.mutex);
  state.refuse_imports = refuse;
}
