#include "support/vulkan/limited_vulkan.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <span>

#include "gpu/capabilities.h"
#include "support/command/reported_answers.h"
#include "support/vulkan/idle_vulkan.h"
#include "support/vulkan/limited_state.h"
#include "support/vulkan/mapped_memory.h"
#include <doctest/doctest.h>

using namespace pumice;
using namespace limited;

namespace {

// ---- physical devices

VKAPI_ATTR VkResult VKAPI_CALL enumerate_one(VkInstance instance, uint32_t* count,
                                             VkPhysicalDevice* handles) {
  uint32_t all = 0;
  VkResult result = state->real.vkEnumeratePhysicalDevices(instance, &all, nullptr);
  if (result < 0) return result;
  std::vector<VkPhysicalDevice> found(all);
  result = state->real.vkEnumeratePhysicalDevices(instance, &all, found.data());
  if (result < 0 || all == 0) return result < 0 ? result : VK_ERROR_INITIALIZATION_FAILED;
  if (handles) *handles = found[0];
  *count = 1;
  return VK_SUCCESS;
}

VKAPI_ATTR void VKAPI_CALL properties(VkPhysicalDevice, VkPhysicalDeviceProperties* answer) {
  answer_properties(state->device, *answer);
}
VKAPI_ATTR void VKAPI_CALL properties2(VkPhysicalDevice, VkPhysicalDeviceProperties2* answer) {
  const std::lock_guard lock(state->mutex);
  std::vector<std::string> wrong;
  answer_properties(state->device, *answer, wrong);
  violate_all(wrong);
}
VKAPI_ATTR void VKAPI_CALL features2(VkPhysicalDevice, VkPhysicalDeviceFeatures2* answer) {
  const std::lock_guard lock(state->mutex);
  std::vector<std::string> wrong;
  answer_features(state->device, *answer, wrong);
  violate_all(wrong);
}
VKAPI_ATTR void VKAPI_CALL memory_properties2(VkPhysicalDevice, VkPhysicalDeviceMemoryProperties2* answer) {
  const std::lock_guard lock(state->mutex);
  answer_memory(state->device, state->used, *answer);
}
VKAPI_ATTR void VKAPI_CALL queue_families(VkPhysicalDevice, uint32_t* count,
                                          VkQueueFamilyProperties* families) {
  if (families) std::ranges::copy(state->device.families, families);
  *count = static_cast<uint32_t>(state->device.families.size());
}
VKAPI_ATTR VkResult VKAPI_CALL extensions(VkPhysicalDevice, const char*, uint32_t* count,
                                          VkExtensionProperties* answer) {
  const std::vector<const char*>& names = state->device.extensions;
  for (size_t i = 0; answer && i < names.size(); ++i) std::strcpy(answer[i].extensionName, names[i]);
  *count = static_cast<uint32_t>(names.size());
  return VK_SUCCESS;
}
VKAPI_ATTR VkResult VKAPI_CALL matrices(VkPhysicalDevice, uint32_t* count,
                                        VkCooperativeMatrixPropertiesKHR* answer) {
  const std::vector<MatrixShape>& shapes = state->device.features.matrices;
  for (size_t i = 0; answer && i < shapes.size(); ++i) {
    VkCooperativeMatrixPropertiesKHR& matrix = answer[i];
    matrix.MSize = shapes[i].m;
    matrix.NSize = shapes[i].n;
    matrix.KSize = shapes[i].k;
    matrix.AType = matrix.BType = VK_COMPONENT_TYPE_FLOAT16_KHR;
    matrix.CType = matrix.ResultType = VK_COMPONENT_TYPE_FLOAT32_KHR;
    matrix.saturatingAccumulation = VK_FALSE;
    matrix.scope = VK_SCOPE_SUBGROUP_KHR;
  }
  *count = static_cast<uint32_t>(shapes.size());
  return VK_SUCCESS;
}

// What the machine's device cannot do, the reported one cannot do either.
void narrow_to_machine(VkPhysicalDevice handle) {
  const VulkanTable& real = state->real;
  const Capabilities found = read_capabilities(real, handle, 0);
  VkPhysicalDeviceProperties all;
  real.vkGetPhysicalDeviceProperties(handle, &all);
  ReportedDevice& device = state->device;
  ReportedLimits& limits = device.limits;
  const auto narrow = [](auto& reported, auto real_limit) {
    reported = std::min<std::remove_reference_t<decltype(reported)>>(reported, real_limit);
  };
  narrow(device.api_version, found.api_version);
  narrow(limits.shared_bytes, found.max_shared_bytes);
  narrow(limits.invocations, found.max_workgroup_invocations);
  for (size_t axis = 0; axis < 3; ++axis) {
    narrow(limits.workgroup[axis], all.limits.maxComputeWorkGroupSize[axis]);
    narrow(limits.workgroups[axis], found.max_workgroups[axis]);
  }
  narrow(limits.push_constant_bytes, found.max_push_constant_bytes);
  narrow(limits.storage_buffers, found.max_storage_buffers);
  narrow(limits.storage_range,
         static_cast<uint32_t>(std::min<uint64_t>(found.max_storage_range_bytes, UINT32_MAX)));
  limits.offset_alignment = std::lcm(limits.offset_alignment, found.storage_offset_alignment);
  narrow(limits.allocation_bytes, found.max_allocation_bytes);
  // Results of the machine's clock cannot be cut to other bits.
  limits.timestamp_period_ns = static_cast<float>(found.timestamp_period_ns);
  for (VkQueueFamilyProperties& family : device.families) {
    if (family.timestampValidBits > 0) family.timestampValidBits = found.timestamp_bits;
  }
  VkSubgroupFeatureFlags operations = VK_SUBGROUP_FEATURE_BASIC_BIT;
  if (found.subgroup_ballot) operations |= VK_SUBGROUP_FEATURE_BALLOT_BIT;
  if (found.subgroup_shuffle) operations |= VK_SUBGROUP_FEATURE_SHUFFLE_BIT;
  ReportedFeatures& features = device.features;
  features.size_control &= found.full_subgroups;
  device.subgroups = {found.subgroup_size,     found.min_subgroup_size,
                      found.max_subgroup_size, device.subgroups.required && found.subgroup_size_control,
                      device.subgroups.most,   device.subgroups.operations & operations};
  features.addresses &= found.buffer_device_address;
  features.float16 &= found.float16;
  features.int8 &= found.int8;
  features.storage16 &= found.storage_16bit;
  features.storage8 &= found.storage_8bit;
  features.memory_model &= found.memory_model;
  features.dot &= found.integer_dot_product;
  features.matrices.clear();
  state->real_family = static_cast<uint32_t>(found.compute_queue_family);
  VkPhysicalDeviceMemoryProperties2 memory{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_PROPERTIES_2};
  real.vkGetPhysicalDeviceMemoryProperties2(handle, &memory);
  state->real_type = mapped_memory_type(memory.memoryProperties);
  uint32_t count = 0;
  real.vkEnumerateDeviceExtensionProperties(handle, nullptr, &count, nullptr);
  std::vector<VkExtensionProperties> names(count);
  real.vkEnumerateDeviceExtensionProperties(handle, nullptr, &count, names.data());
  for (const VkExtensionProperties& name : names) state->real_extensions.insert(name.extensionName);
}

VKAPI_ATTR VkResult VKAPI_CALL create_instance(const VkInstanceCreateInfo* info,
                                               const VkAllocationCallbacks* callbacks, VkInstance* instance) {
  const VkResult result = state->real.vkCreateInstance(info, callbacks, instance);
  if (result != VK_SUCCESS) return result;
  REQUIRE(state->real.load_instance(*instance).ok());
  VkPhysicalDevice first = VK_NULL_HANDLE;
  uint32_t count = 1;
  if (state->machine && enumerate_one(*instance, &count, &first) == VK_SUCCESS) narrow_to_machine(first);
  return VK_SUCCESS;
}

// ---- the device and its queues

void check_queues(const VkDeviceCreateInfo& info) {
  const std::vector<VkQueueFamilyProperties>& families = state->device.families;
  for (uint32_t i = 0; i < info.queueCreateInfoCount; ++i) {
    const VkDeviceQueueCreateInfo& queue = info.pQueueCreateInfos[i];
    if (queue.queueFamilyIndex >= families.size()) {
      violate("vkCreateDevice: a queue of family {}; {} has {} families", queue.queueFamilyIndex,
              state->device.name, families.size());
      continue;
    }
    at_most("vkCreateDevice", queue.queueCount, families[queue.queueFamilyIndex].queueCount,
            "queues of a family");
    for (uint32_t j = 0; j < queue.queueCount; ++j) state->queues.emplace(queue.queueFamilyIndex, j);
  }
}

VKAPI_ATTR VkResult VKAPI_CALL create_device(VkPhysicalDevice physical, const VkDeviceCreateInfo* info,
                                             const VkAllocationCallbacks* callbacks, VkDevice* device) {
  std::vector<const char*> passed;
  {
    const std::lock_guard lock(state->mutex);
    std::vector<std::string> wrong;
    state->enabled = enabled_features(state->device, info->pNext, wrong);
    violate_all(wrong);
    state->queues.clear();
    check_queues(*info);
    bool portable = false;
    for (uint32_t i = 0; i < info->enabledExtensionCount; ++i) {
      const std::string name = info->ppEnabledExtensionNames[i];
      portable |= name == portability_subset_extension;
      if (!has_extension(state->device, name))
        violate("vkCreateDevice: extension {}, which {} does not have", name, state->device.name);
      if (!state->machine || state->real_extensions.contains(name))
        passed.push_back(info->ppEnabledExtensionNames[i]);
    }
    if (!portable && has_extension(state->device, portability_subset_extension)) {
      violate("vkCreateDevice: {} must be switched on where {} has it", portability_subset_extension,
              state->device.name);
    }
  }
  VkDeviceCreateInfo other = *info;
  other.enabledExtensionCount = static_cast<uint32_t>(passed.size());
  other.ppEnabledExtensionNames = passed.data();
  VkDeviceQueueCreateInfo queue = info->pQueueCreateInfos[0];
  if (state->machine) {
    queue.queueFamilyIndex = state->real_family;
    queue.queueCount = 1;
    other.queueCreateInfoCount = 1;
    other.pQueueCreateInfos = &queue;
  }
  const VkResult result = state->real.vkCreateDevice(physical, &other, callbacks, device);
  if (result == VK_SUCCESS) REQUIRE(state->real.load_device(*device).ok());
  return result;
}

VKAPI_ATTR void VKAPI_CALL get_queue(VkDevice device, uint32_t family, uint32_t index, VkQueue* queue) {
  VkQueue real = VK_NULL_HANDLE;
  state->real.vkGetDeviceQueue(device, state->machine ? state->real_family : family,
                               state->machine ? 0 : index, &real);
  const std::lock_guard lock(state->mutex);
  if (!state->queues.contains({family, index}))
    violate("vkGetDeviceQueue: queue {} of family {}, with which the device was not made", index, family);
  QueueState& given = state->given_queues[{family, index}];
  given = {family, real, 0};
  *queue = reinterpret_cast<VkQueue>(&given);
}

VKAPI_ATTR VkResult VKAPI_CALL submit(VkQueue queue, uint32_t count, const VkSubmitInfo* submissions,
                                      VkFence fence) {
  auto& given = *reinterpret_cast<QueueState*>(queue);
  {
    const std::lock_guard lock(state->mutex);
    ++given.submissions;
    const uint32_t family = given.family;
    for (uint32_t i = 0; i < count; ++i) {
      for (uint32_t j = 0; j < submissions[i].commandBufferCount; ++j) {
        const uint32_t other = state->pool_families[state->commands[submissions[i].pCommandBuffers[j]].pool];
        if (other == family) continue;
        violate("vkQueueSubmit: commands of queue family {} go to a queue of family {}", other, family);
      }
    }
  }
  return state->real.vkQueueSubmit(given.real, count, submissions, fence);
}
VKAPI_ATTR VkResult VKAPI_CALL queue_idle(VkQueue queue) {
  return state->real.vkQueueWaitIdle(reinterpret_cast<const QueueState*>(queue)->real);
}

// ---- memory and buffers

VKAPI_ATTR VkResult VKAPI_CALL allocate_memory(VkDevice device, const VkMemoryAllocateInfo* info,
                                               const VkAllocationCallbacks* callbacks,
                                               VkDeviceMemory* memory) {
  const ReportedDevice& reported = state->device;
  const uint32_t type = info->memoryTypeIndex;
  {
    const std::lock_guard lock(state->mutex);
    if (type >= reported.types.size()) {
      violate("vkAllocateMemory: memory type {}; {} has {}", type, reported.name, reported.types.size());
      return VK_ERROR_OUT_OF_DEVICE_MEMORY;
    }
    at_most("vkAllocateMemory", info->allocationSize, reported.limits.allocation_bytes, "bytes at once");
    if (reported.types[type].propertyFlags & VK_MEMORY_PROPERTY_PROTECTED_BIT)
      violate("vkAllocateMemory: protected memory (type {}) without protectedMemory", type);
    for (auto* next = static_cast<const VkBaseInStructure*>(info->pNext); next; next = next->pNext) {
      if (next->sType != VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_FLAGS_INFO || state->enabled.addresses) continue;
      if (reinterpret_cast<const VkMemoryAllocateFlagsInfo*>(next)->flags &
          VK_MEMORY_ALLOCATE_DEVICE_ADDRESS_BIT)
        violate("vkAllocateMemory: memory with addresses, without bufferDeviceAddress");
    }
    if (state->memories.size() >= reported.limits.allocations) return VK_ERROR_TOO_MANY_OBJECTS;
    const uint32_t heap = reported.types[type].heapIndex;
    if (info->allocationSize > reported.heaps[heap].size - state->used[heap])
      return VK_ERROR_OUT_OF_DEVICE_MEMORY;
  }
  VkMemoryAllocateInfo other = *info;
  if (state->machine) other.memoryTypeIndex = state->real_type;
  const VkResult result = state->real.vkAllocateMemory(device, &other, callbacks, memory);
  if (result != VK_SUCCESS) return result;
  const std::lock_guard lock(state->mutex);
  state->memories[*memory] = {info->allocationSize, type};
  state->used[reported.types[type].heapIndex] += info->allocationSize;
  return result;
}
VKAPI_ATTR void VKAPI_CALL free_memory(VkDevice device, VkDeviceMemory memory,
                                       const VkAllocationCallbacks* callbacks) {
  {
    const std::lock_guard lock(state->mutex);
    const MemoryState freed = state->memories[memory];
    state->used[state->device.types[freed.type].heapIndex] -= freed.bytes;
    state->memories.erase(memory);
  }
  state->real.vkFreeMemory(device, memory, callbacks);
}
VKAPI_ATTR VkResult VKAPI_CALL map_memory(VkDevice device, VkDeviceMemory memory, VkDeviceSize offset,
                                          VkDeviceSize bytes, VkMemoryMapFlags flags, void** pointer) {
  {
    const std::lock_guard lock(state->mutex);
    const uint32_t type = state->memories[memory].type;
    if (!(state->device.types[type].propertyFlags & VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT))
      violate("vkMapMemory: memory type {} of {} cannot be mapped", type, state->device.name);
    if (!(state->device.types[type].propertyFlags & VK_MEMORY_PROPERTY_HOST_COHERENT_BIT))
      violate("vkMapMemory: memory type {} of {} is not coherent, and nothing flushes it", type,
              state->device.name);
  }
  return state->real.vkMapMemory(device, memory, offset, bytes, flags, pointer);
}
VKAPI_ATTR VkResult VKAPI_CALL create_buffer(VkDevice device, const VkBufferCreateInfo* info,
                                             const VkAllocationCallbacks* callbacks, VkBuffer* buffer) {
  VkBufferCreateInfo other = *info;
  if (state->machine) other.sharingMode = VK_SHARING_MODE_EXCLUSIVE; // among families that it may lack
  const VkResult result = state->real.vkCreateBuffer(device, &other, callbacks, buffer);
  const std::lock_guard lock(state->mutex);
  if ((info->usage & VK_BUFFER_USAGE_SHADER_DEVICE_ADDRESS_BIT) && !state->enabled.addresses)
    violate("vkCreateBuffer: a buffer with an address, without bufferDeviceAddress");
  BufferState& made = state->buffers[*buffer] = {info->size, info->usage, {}, false};
  if (info->sharingMode == VK_SHARING_MODE_CONCURRENT) {
    const std::span<const uint32_t> families(info->pQueueFamilyIndices, info->queueFamilyIndexCount);
    made.families.assign(families.begin(), families.end());
    for (const uint32_t family : std::set(families.begin(), families.end())) {
      if (!state->queues.contains({family, 0}))
        violate("vkCreateBuffer: shared with queue family {}, with which the device was not made", family);
    }
  }
  return result;
}
VKAPI_ATTR void VKAPI_CALL destroy_buffer(VkDevice device, VkBuffer buffer,
                                          const VkAllocationCallbacks* callbacks) {
  {
    const std::lock_guard lock(state->mutex);
    state->buffers.erase(buffer);
  }
  state->real.vkDestroyBuffer(device, buffer, callbacks);
}
VKAPI_ATTR void VKAPI_CALL buffer_requirements(VkDevice device, VkBuffer buffer,
                                               VkMemoryRequirements* requirements) {
  state->real.vkGetBufferMemoryRequirements(device, buffer, requirements);
  requirements->memoryTypeBits = 0;
  constexpr VkMemoryPropertyFlags of_images = VK_MEMORY_PROPERTY_LAZILY_ALLOCATED_BIT;
  for (uint32_t i = 0; i < state->device.types.size(); ++i) {
    if (!(state->device.types[i].propertyFlags & of_images)) requirements->memoryTypeBits |= 1u << i;
  }
}
VKAPI_ATTR VkResult VKAPI_CALL bind_memory(VkDevice device, VkBuffer buffer, VkDeviceMemory memory,
                                           VkDeviceSize offset) {
  VkMemoryRequirements needed;
  buffer_requirements(device, buffer, &needed);
  {
    const std::lock_guard lock(state->mutex);
    const MemoryState bound = state->memories[memory];
    if (!(needed.memoryTypeBits & 1u << bound.type))
      violate("vkBindBufferMemory: memory type {} is for images", bound.type);
    if (offset % needed.alignment)
      violate("vkBindBufferMemory: offset {}; buffers need multiples of {}", offset, needed.alignment);
    if (offset + needed.size > bound.bytes) {
      violate("vkBindBufferMemory: {} bytes at offset {} of an allocation of {}", needed.size, offset,
              bound.bytes);
      return VK_ERROR_OUT_OF_DEVICE_MEMORY;
    }
    state->buffers[buffer].bound = true;
  }
  return state->real.vkBindBufferMemory(device, buffer, memory, offset);
}

// ---- looking functions up

PFN_vkVoidFunction VKAPI_CALL device_function(VkDevice device, const char* name);

std::map<std::string_view, PFN_vkVoidFunction> device_functions() {
  return {
      LIMITED(vkCreateInstance, create_instance),
      LIMITED(vkEnumeratePhysicalDevices, enumerate_one),
      LIMITED(vkGetPhysicalDeviceProperties, properties),
      LIMITED(vkGetPhysicalDeviceProperties2, properties2),
      LIMITED(vkGetPhysicalDeviceFeatures2, features2),
      LIMITED(vkGetPhysicalDeviceMemoryProperties2, memory_properties2),
      LIMITED(vkGetPhysicalDeviceQueueFamilyProperties, queue_families),
      LIMITED(vkEnumerateDeviceExtensionProperties, extensions),
      LIMITED(vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR, matrices),
      LIMITED(vkCreateDevice, create_device),
      LIMITED(vkGetDeviceProcAddr, device_function),
      LIMITED(vkGetDeviceQueue, get_queue),
      LIMITED(vkQueueSubmit, submit),
      LIMITED(vkQueueWaitIdle, queue_idle),
      LIMITED(vkAllocateMemory, allocate_memory),
      LIMITED(vkFreeMemory, free_memory),
      LIMITED(vkMapMemory, map_memory),
      LIMITED(vkCreateBuffer, create_buffer),
      LIMITED(vkDestroyBuffer, destroy_buffer),
      LIMITED(vkGetBufferMemoryRequirements, buffer_requirements),
      LIMITED(vkBindBufferMemory, bind_memory),
  };
}

PFN_vkVoidFunction limited(const char* name, PFN_vkVoidFunction real) {
  static const std::map<std::string_view, PFN_vkVoidFunction> functions = [] {
    auto all = device_functions();
    all.merge(work_functions());
    return all;
  }();
  const auto found = functions.find(name);
  return found == functions.end() ? real : found->second;
}

VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL device_function(VkDevice device, const char* name) {
  return limited(name, state->real.vkGetDeviceProcAddr(device, name));
}
VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL instance_function(VkInstance instance, const char* name) {
  return limited(name, state->real.vkGetInstanceProcAddr(instance, name));
}

} // namespace

LimitedVulkan::LimitedVulkan(const ReportedDevice& device, Driver driver) {
  REQUIRE(state == nullptr);
  PFN_vkGetInstanceProcAddr loader = idle_vulkan;
  if (driver == Driver::machine) {
    const auto opened = open_vulkan_loader();
    if (!opened.ok()) FAIL(opened.error().text());
    loader = *opened;
  }
  state = new State;
  state->device = device;
  state->machine = driver == Driver::machine;
  state->used.resize(device.heaps.size());
  REQUIRE(state->real.load_global(loader).ok());
  uint32_t bits = 0;
  for (const VkQueueFamilyProperties& family : device.families)
    bits = std::max(bits, family.timestampValidBits);
  set_idle_clock(bits, std::max(1.0f, device.limits.timestamp_period_ns));
}

LimitedVulkan::~LimitedVulkan() {
  delete state;
  state = nullptr;
}

InstanceOptions LimitedVulkan::options() const {
  InstanceOptions options;
  options.table.vkGetInstanceProcAddr = instance_function;
  return options;
}

const ReportedDevice& LimitedVulkan::device() const {
  return state->device;
}

std::string LimitedVulkan::violations() {
  const std::lock_guard lock(state->mutex);
  std::string text;
  for (const std::string& sentence : state->violations) text += sentence + "\n";
  state->violations.clear();
  return text;
}

uint64_t LimitedVulkan::submissions(uint32_t family) const {
  const std::lock_guard lock(state->mutex);
  uint64_t sum = 0;
  for (const auto& [where, queue] : state->given_queues) sum += where.first == family ? queue.submissions : 0;
  return sum;
}

uint64_t LimitedVulkan::used_bytes(uint32_t heap) const {
  const std::lock_guard lock(state->mutex);
  return state->used.at(heap);
}
