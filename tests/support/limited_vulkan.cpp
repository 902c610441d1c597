#include "support/limited_vulkan.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>
#include <numeric>
#include <set>
#include <string_view>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "gpu/capabilities.h"
#include "support/idle_vulkan.h"
#include "support/reported_answers.h"
#include "support/shader_demands.h"

using namespace pumice;

namespace {

struct MemoryState {
  uint64_t bytes = 0;
  uint32_t type = 0;
};
struct BufferState {
  uint64_t bytes = 0;
  VkBufferUsageFlags usage = 0;
  bool bound = false;
};
struct CommandState {
  VkCommandPool pool = VK_NULL_HANDLE;
  VkPipeline pipeline = VK_NULL_HANDLE;
  VkDescriptorSet set = VK_NULL_HANDLE;
};

struct State {
  ReportedDevice device;
  bool machine = false;
  VulkanTable real;
  std::set<std::string> real_extensions;
  uint32_t real_family = 0;

  std::mutex mutex; // guards all members below
  std::vector<std::string> violations;
  ReportedFeatures enabled;
  std::set<std::pair<uint32_t, uint32_t>> queues; // family and index
  std::map<VkQueue, uint32_t> queue_families;
  std::vector<uint64_t> used; // bytes of each heap
  std::map<VkDeviceMemory, MemoryState> memories;
  std::map<VkBuffer, BufferState> buffers;
  std::map<VkShaderModule, std::vector<uint32_t>> modules;
  std::map<VkDescriptorSetLayout, uint32_t> set_layouts; // storage buffers
  struct LayoutState {
    uint32_t push_constant_bytes = 0, storage_buffers = 0;
  };
  std::map<VkPipelineLayout, LayoutState> layouts;
  std::set<VkPipeline> pipelines;
  std::map<VkCommandPool, uint32_t> pool_families;
  std::map<VkCommandBuffer, CommandState> commands;
};
State* state = nullptr;

// To be called with the mutex held.
template <class... Arguments>
void violate(fmt::format_string<Arguments...> text, Arguments&&... arguments) {
  constexpr size_t most = 20;
  const std::string sentence = fmt::format(text, std::forward<Arguments>(arguments)...);
  if (state->violations.size() >= most) return;
  if (std::ranges::find(state->violations, sentence) == state->violations.end())
    state->violations.push_back(sentence);
}
void violate_all(const std::vector<std::string>& sentences) {
  for (const std::string& sentence : sentences) violate("{}", sentence);
}

template <class Number>
void at_most(const char* call, Number value, Number most, const char* what) {
  if (value > most) violate("{}: {} {}; {} has {}", call, value, what, state->device.name, most);
}

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
  state->real.vkGetDeviceQueue(device, state->machine ? state->real_family : family,
                               state->machine ? 0 : index, queue);
  const std::lock_guard lock(state->mutex);
  if (!state->queues.contains({family, index}))
    violate("vkGetDeviceQueue: queue {} of family {}, with which the device was not made", index, family);
  state->queue_families[*queue] = family;
}

VKAPI_ATTR VkResult VKAPI_CALL submit(VkQueue queue, uint32_t count, const VkSubmitInfo* submissions,
                                      VkFence fence) {
  {
    const std::lock_guard lock(state->mutex);
    const uint32_t family = state->queue_families[queue];
    for (uint32_t i = 0; i < count; ++i) {
      for (uint32_t j = 0; j < submissions[i].commandBufferCount; ++j) {
        const uint32_t other = state->pool_families[state->commands[submissions[i].pCommandBuffers[j]].pool];
        if (other == family) continue;
        violate("vkQueueSubmit: commands of queue family {} go to a queue of family {}", other, family);
      }
    }
  }
  return state->real.vkQueueSubmit(queue, count, submissions, fence);
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
  if (state->machine) other.memoryTypeIndex = 0;
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
  const VkResult result = state->real.vkCreateBuffer(device, info, callbacks, buffer);
  const std::lock_guard lock(state->mutex);
  if ((info->usage & VK_BUFFER_USAGE_SHADER_DEVICE_ADDRESS_BIT) && !state->enabled.addresses)
    violate("vkCreateBuffer: a buffer with an address, without bufferDeviceAddress");
  state->buffers[*buffer] = {info->size, info->usage};
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

// With the mutex held.
void check_range(const char* call, VkBuffer buffer, uint64_t offset, uint64_t bytes,
                 VkBufferUsageFlags usage) {
  const auto found = state->buffers.find(buffer);
  if (found == state->buffers.end()) {
    violate("{}: a buffer that does not exist", call);
    return;
  }
  const BufferState& used = found->second;
  if (!used.bound) violate("{}: a buffer without memory", call);
  if ((used.usage & usage) != usage) violate("{}: a buffer that was not made for this use", call);
  if (offset > used.bytes || bytes > used.bytes - offset)
    violate("{}: {} bytes at offset {} of a buffer of {}", call, bytes, offset, used.bytes);
}

// ---- descriptors

VKAPI_ATTR VkResult VKAPI_CALL create_set_layout(VkDevice device, const VkDescriptorSetLayoutCreateInfo* info,
                                                 const VkAllocationCallbacks* callbacks,
                                                 VkDescriptorSetLayout* layout) {
  const VkResult result = state->real.vkCreateDescriptorSetLayout(device, info, callbacks, layout);
  const std::lock_guard lock(state->mutex);
  uint32_t buffers = 0;
  for (uint32_t i = 0; i < info->bindingCount; ++i) buffers += info->pBindings[i].descriptorCount;
  at_most("vkCreateDescriptorSetLayout", buffers, state->device.limits.storage_buffers,
          "storage buffers to a shader");
  state->set_layouts[*layout] = buffers;
  return result;
}
VKAPI_ATTR void VKAPI_CALL update_sets(VkDevice device, uint32_t count, const VkWriteDescriptorSet* writes,
                                       uint32_t copies, const VkCopyDescriptorSet* copied) {
  {
    const std::lock_guard lock(state->mutex);
    const ReportedLimits& limits = state->device.limits;
    for (uint32_t i = 0; i < count; ++i) {
      for (uint32_t j = 0; writes[i].pBufferInfo && j < writes[i].descriptorCount; ++j) {
        const VkDescriptorBufferInfo& bound = writes[i].pBufferInfo[j];
        at_most<uint64_t>("vkUpdateDescriptorSets", bound.range, limits.storage_range, "bytes in a binding");
        if (bound.offset % limits.offset_alignment)
          violate("vkUpdateDescriptorSets: offset {}; {} needs multiples of {}", bound.offset,
                  state->device.name, limits.offset_alignment);
        if (bound.range == 0) violate("vkUpdateDescriptorSets: an empty range");
        check_range("vkUpdateDescriptorSets", bound.buffer, bound.offset, bound.range,
                    VK_BUFFER_USAGE_STORAGE_BUFFER_BIT);
      }
    }
  }
  state->real.vkUpdateDescriptorSets(device, count, writes, copies, copied);
}
VKAPI_ATTR VkResult VKAPI_CALL create_layout(VkDevice device, const VkPipelineLayoutCreateInfo* info,
                                             const VkAllocationCallbacks* callbacks,
                                             VkPipelineLayout* layout) {
  const VkResult result = state->real.vkCreatePipelineLayout(device, info, callbacks, layout);
  const std::lock_guard lock(state->mutex);
  State::LayoutState made;
  for (uint32_t i = 0; i < info->pushConstantRangeCount; ++i) {
    const VkPushConstantRange& range = info->pPushConstantRanges[i];
    made.push_constant_bytes = std::max(made.push_constant_bytes, range.offset + range.size);
  }
  at_most("vkCreatePipelineLayout", made.push_constant_bytes, state->device.limits.push_constant_bytes,
          "bytes of push constants");
  for (uint32_t i = 0; i < info->setLayoutCount; ++i)
    made.storage_buffers += state->set_layouts[info->pSetLayouts[i]];
  state->layouts[*layout] = made;
  return result;
}

// ---- shaders

VKAPI_ATTR VkResult VKAPI_CALL create_module(VkDevice device, const VkShaderModuleCreateInfo* info,
                                             const VkAllocationCallbacks* callbacks, VkShaderModule* module) {
  const VkResult result = state->real.vkCreateShaderModule(device, info, callbacks, module);
  std::vector<uint32_t> code(info->pCode, info->pCode + info->codeSize / 4);
  const ShaderDemands demands = read_shader(code, nullptr);
  const std::lock_guard lock(state->mutex);
  for (const uint32_t capability : demands.capabilities) {
    const std::string missing = missing_for(capability, state->device, state->enabled);
    if (!missing.empty())
      violate("vkCreateShaderModule: a shader needs {}, which is not switched on for {}", missing,
              state->device.name);
  }
  state->modules[*module] = std::move(code);
  return result;
}
VKAPI_ATTR void VKAPI_CALL destroy_module(VkDevice device, VkShaderModule module,
                                          const VkAllocationCallbacks* callbacks) {
  {
    const std::lock_guard lock(state->mutex);
    state->modules.erase(module);
  }
  state->real.vkDestroyShaderModule(device, module, callbacks);
}

void check_subgroups(const VkPipelineShaderStageCreateInfo& stage, const ShaderDemands& demands) {
  const ReportedSubgroups& subgroups = state->device.subgroups;
  uint32_t required = 0;
  for (auto* next = static_cast<const VkBaseInStructure*>(stage.pNext); next; next = next->pNext) {
    if (next->sType != VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_REQUIRED_SUBGROUP_SIZE_CREATE_INFO) continue;
    required = reinterpret_cast<const VkPipelineShaderStageRequiredSubgroupSizeCreateInfo*>(next)
                   ->requiredSubgroupSize;
  }
  const bool full = stage.flags & VK_PIPELINE_SHADER_STAGE_CREATE_REQUIRE_FULL_SUBGROUPS_BIT;
  if ((required || full) && !state->enabled.size_control)
    violate("vkCreateComputePipelines: full subgroups or a size of them, without subgroupSizeControl");
  if (required && !subgroups.required)
    violate("vkCreateComputePipelines: a size of subgroups, for which shaders of {} cannot ask",
            state->device.name);
  if (required && (required < subgroups.least || required > subgroups.greatest))
    violate("vkCreateComputePipelines: subgroups of {}; {} has those of {} to {}", required,
            state->device.name, subgroups.least, subgroups.greatest);
  const uint32_t size = required ? required : std::max(subgroups.greatest, subgroups.size);
  if (full && demands.workgroup[0] % size)
    violate("vkCreateComputePipelines: full subgroups of {} in a workgroup of {}", size,
            demands.workgroup[0]);
  const uint32_t invocations = demands.workgroup[0] * demands.workgroup[1] * demands.workgroup[2];
  if (required)
    at_most("vkCreateComputePipelines", invocations / required, subgroups.most, "subgroups in a workgroup");
  // A shuffle reads from a lane by its number, so the kernel was made for one size.
  constexpr uint32_t shuffle = 65;
  const bool shuffles = std::ranges::find(demands.capabilities, shuffle) != demands.capabilities.end();
  if (shuffles && !required && subgroups.least != subgroups.greatest)
    violate("vkCreateComputePipelines: a kernel with shuffles, and {} chooses the size of its subgroups",
            state->device.name);
}

void check_pipeline(const VkComputePipelineCreateInfo& info) {
  const ReportedLimits& limits = state->device.limits;
  const ShaderDemands demands =
      read_shader(state->modules[info.stage.module], info.stage.pSpecializationInfo);
  constexpr const char* call = "vkCreateComputePipelines";
  uint64_t invocations = 1;
  for (size_t axis = 0; axis < 3; ++axis) {
    at_most(call, demands.workgroup[axis], limits.workgroup[axis],
            "invocations along an axis of a workgroup");
    invocations *= demands.workgroup[axis];
  }
  if (invocations == 0) violate("{}: a workgroup without invocations", call);
  at_most<uint64_t>(call, invocations, limits.invocations, "invocations in a workgroup");
  at_most<uint64_t>(call, demands.shared_bytes, limits.shared_bytes, "bytes of shared memory");
  const State::LayoutState& layout = state->layouts[info.layout];
  at_most<uint64_t>(call, demands.push_constant_bytes, layout.push_constant_bytes,
                    "bytes of push constants in a shader");
  if (demands.storage_buffers > layout.storage_buffers)
    violate("{}: a shader has {} storage buffers, and its layout {}", call, demands.storage_buffers,
            layout.storage_buffers);
  check_subgroups(info.stage, demands);
}

VKAPI_ATTR VkResult VKAPI_CALL create_pipelines(VkDevice device, VkPipelineCache cache, uint32_t count,
                                                const VkComputePipelineCreateInfo* infos,
                                                const VkAllocationCallbacks* callbacks,
                                                VkPipeline* pipelines) {
  {
    const std::lock_guard lock(state->mutex);
    const size_t before = state->violations.size();
    for (uint32_t i = 0; i < count; ++i) check_pipeline(infos[i]);
    // A driver may crash on what is wrong.
    if (state->machine && state->violations.size() > before) return VK_ERROR_OUT_OF_HOST_MEMORY;
  }
  const VkResult result =
      state->real.vkCreateComputePipelines(device, cache, count, infos, callbacks, pipelines);
  const std::lock_guard lock(state->mutex);
  for (uint32_t i = 0; i < count; ++i) state->pipelines.insert(pipelines[i]);
  return result;
}

// ---- commands

VKAPI_ATTR VkResult VKAPI_CALL create_pool(VkDevice device, const VkCommandPoolCreateInfo* info,
                                           const VkAllocationCallbacks* callbacks, VkCommandPool* pool) {
  VkCommandPoolCreateInfo other = *info;
  if (state->machine) other.queueFamilyIndex = state->real_family;
  const VkResult result = state->real.vkCreateCommandPool(device, &other, callbacks, pool);
  const std::lock_guard lock(state->mutex);
  if (!state->queues.contains({info->queueFamilyIndex, 0}))
    violate("vkCreateCommandPool: queue family {}, with which the device was not made",
            info->queueFamilyIndex);
  state->pool_families[*pool] = info->queueFamilyIndex;
  return result;
}
VKAPI_ATTR VkResult VKAPI_CALL allocate_commands(VkDevice device, const VkCommandBufferAllocateInfo* info,
                                                 VkCommandBuffer* buffers) {
  const VkResult result = state->real.vkAllocateCommandBuffers(device, info, buffers);
  const std::lock_guard lock(state->mutex);
  for (uint32_t i = 0; i < info->commandBufferCount; ++i) state->commands[buffers[i]] = {info->commandPool};
  return result;
}

// With the mutex held. The family that commands are recorded for.
const VkQueueFamilyProperties& family_of(VkCommandBuffer buffer) {
  return state->device.families.at(state->pool_families[state->commands[buffer].pool]);
}
void need_compute(const char* call, VkCommandBuffer buffer) {
  if (!(family_of(buffer).queueFlags & VK_QUEUE_COMPUTE_BIT))
    violate("{}: on a queue that does not compute", call);
}

VKAPI_ATTR void VKAPI_CALL bind_pipeline(VkCommandBuffer buffer, VkPipelineBindPoint point,
                                         VkPipeline pipeline) {
  {
    const std::lock_guard lock(state->mutex);
    if (!state->pipelines.contains(pipeline)) violate("vkCmdBindPipeline: a pipeline that does not exist");
    need_compute("vkCmdBindPipeline", buffer);
    state->commands[buffer].pipeline = pipeline;
  }
  state->real.vkCmdBindPipeline(buffer, point, pipeline);
}
VKAPI_ATTR void VKAPI_CALL bind_sets(VkCommandBuffer buffer, VkPipelineBindPoint point,
                                     VkPipelineLayout layout, uint32_t first, uint32_t count,
                                     const VkDescriptorSet* sets, uint32_t dynamic_count,
                                     const uint32_t* dynamic) {
  {
    const std::lock_guard lock(state->mutex);
    if (count > 0) state->commands[buffer].set = sets[0];
  }
  state->real.vkCmdBindDescriptorSets(buffer, point, layout, first, count, sets, dynamic_count, dynamic);
}
VKAPI_ATTR void VKAPI_CALL push_constants(VkCommandBuffer buffer, VkPipelineLayout layout,
                                          VkShaderStageFlags stages, uint32_t offset, uint32_t bytes,
                                          const void* values) {
  {
    const std::lock_guard lock(state->mutex);
    at_most("vkCmdPushConstants", offset + bytes, state->layouts[layout].push_constant_bytes,
            "bytes of push constants");
    if (bytes == 0 || bytes % 4 || offset % 4)
      violate("vkCmdPushConstants: {} bytes at offset {}: multiples of 4 are needed", bytes, offset);
  }
  state->real.vkCmdPushConstants(buffer, layout, stages, offset, bytes, values);
}
void check_dispatch(VkCommandBuffer buffer, std::array<uint32_t, 3> first, std::array<uint32_t, 3> groups) {
  const std::lock_guard lock(state->mutex);
  for (size_t axis = 0; axis < 3; ++axis) {
    at_most("vkCmdDispatch", first[axis] + groups[axis], state->device.limits.workgroups[axis],
            "workgroups along an axis");
    if (!groups[axis]) violate("vkCmdDispatch: no workgroups along an axis");
  }
  const CommandState& recorded = state->commands[buffer];
  if (!recorded.pipeline || !recorded.set) violate("vkCmdDispatch: without a pipeline or a descriptor set");
}
VKAPI_ATTR void VKAPI_CALL dispatch(VkCommandBuffer buffer, uint32_t x, uint32_t y, uint32_t z) {
  check_dispatch(buffer, {}, {x, y, z});
  state->real.vkCmdDispatch(buffer, x, y, z);
}
VKAPI_ATTR void VKAPI_CALL dispatch_base(VkCommandBuffer buffer, uint32_t first_x, uint32_t first_y,
                                         uint32_t first_z, uint32_t x, uint32_t y, uint32_t z) {
  check_dispatch(buffer, {first_x, first_y, first_z}, {x, y, z});
  state->real.vkCmdDispatchBase(buffer, first_x, first_y, first_z, x, y, z);
}
VKAPI_ATTR void VKAPI_CALL copy_buffer(VkCommandBuffer buffer, VkBuffer from, VkBuffer to, uint32_t count,
                                       const VkBufferCopy* regions) {
  {
    const std::lock_guard lock(state->mutex);
    for (uint32_t i = 0; i < count; ++i) {
      check_range("vkCmdCopyBuffer", from, regions[i].srcOffset, regions[i].size,
                  VK_BUFFER_USAGE_TRANSFER_SRC_BIT);
      check_range("vkCmdCopyBuffer", to, regions[i].dstOffset, regions[i].size,
                  VK_BUFFER_USAGE_TRANSFER_DST_BIT);
      if (regions[i].size == 0) violate("vkCmdCopyBuffer: a copy of 0 bytes");
    }
  }
  state->real.vkCmdCopyBuffer(buffer, from, to, count, regions);
}
VKAPI_ATTR void VKAPI_CALL fill_buffer(VkCommandBuffer buffer, VkBuffer to, VkDeviceSize offset,
                                       VkDeviceSize bytes, uint32_t value) {
  {
    const std::lock_guard lock(state->mutex);
    check_range("vkCmdFillBuffer", to, offset, bytes, VK_BUFFER_USAGE_TRANSFER_DST_BIT);
    if (offset % 4 || bytes % 4 || bytes == 0)
      violate("vkCmdFillBuffer: {} bytes at offset {}: multiples of 4 are needed", bytes, offset);
  }
  state->real.vkCmdFillBuffer(buffer, to, offset, bytes, value);
}
VKAPI_ATTR void VKAPI_CALL write_timestamp(VkCommandBuffer buffer, VkPipelineStageFlagBits stage,
                                           VkQueryPool pool, uint32_t index) {
  {
    const std::lock_guard lock(state->mutex);
    if (family_of(buffer).timestampValidBits == 0)
      violate("vkCmdWriteTimestamp: on a queue of {} without timestamps", state->device.name);
  }
  state->real.vkCmdWriteTimestamp(buffer, stage, pool, index);
}

// ---- looking functions up

template <class Type>
PFN_vkVoidFunction typed(Type function) {
  return reinterpret_cast<PFN_vkVoidFunction>(function);
}

PFN_vkVoidFunction VKAPI_CALL device_function(VkDevice device, const char* name);

#define LIMITED(name, function)                                                                              \
  { #name, typed < PFN_##name>(function) }
std::map<std::string_view, PFN_vkVoidFunction> all_functions() {
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
      LIMITED(vkAllocateMemory, allocate_memory),
      LIMITED(vkFreeMemory, free_memory),
      LIMITED(vkMapMemory, map_memory),
      LIMITED(vkCreateBuffer, create_buffer),
      LIMITED(vkDestroyBuffer, destroy_buffer),
      LIMITED(vkGetBufferMemoryRequirements, buffer_requirements),
      LIMITED(vkBindBufferMemory, bind_memory),
      LIMITED(vkCreateDescriptorSetLayout, create_set_layout),
      LIMITED(vkUpdateDescriptorSets, update_sets),
      LIMITED(vkCreatePipelineLayout, create_layout),
      LIMITED(vkCreateShaderModule, create_module),
      LIMITED(vkDestroyShaderModule, destroy_module),
      LIMITED(vkCreateComputePipelines, create_pipelines),
      LIMITED(vkCreateCommandPool, create_pool),
      LIMITED(vkAllocateCommandBuffers, allocate_commands),
      LIMITED(vkCmdBindPipeline, bind_pipeline),
      LIMITED(vkCmdBindDescriptorSets, bind_sets),
      LIMITED(vkCmdPushConstants, push_constants),
      LIMITED(vkCmdDispatch, dispatch),
      LIMITED(vkCmdDispatchBase, dispatch_base),
      LIMITED(vkCmdCopyBuffer, copy_buffer),
      LIMITED(vkCmdFillBuffer, fill_buffer),
      LIMITED(vkCmdWriteTimestamp, write_timestamp),
  };
}

PFN_vkVoidFunction limited(const char* name, PFN_vkVoidFunction real) {
  static const std::map<std::string_view, PFN_vkVoidFunction> functions = all_functions();
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

uint64_t LimitedVulkan::used_bytes(uint32_t heap) const {
  const std::lock_guard lock(state->mutex);
  return state->used.at(heap);
}
