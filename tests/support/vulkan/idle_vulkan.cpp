#include "support/vulkan/idle_vulkan.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <string_view>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;

struct {
  uint64_t mask = UINT64_MAX;
  double period_ns = 1;
  Clock::time_point start = Clock::now();
} idle_clock;

uint64_t ticks() {
  const std::chrono::duration<double, std::nano> passed = Clock::now() - idle_clock.start;
  constexpr double before_the_end = 2e9; // nanoseconds
  const auto offset = static_cast<uint64_t>(before_the_end / idle_clock.period_ns);
  return (static_cast<uint64_t>(passed.count() / idle_clock.period_ns) - offset) & idle_clock.mask;
}

// What is behind handles. Pools own what is allocated from them.
struct Nothing {};
struct Memory {
  uint64_t bytes = 0;
  std::unique_ptr<void, decltype(&std::free)> data{nullptr, std::free}; // of memory that was mapped
};
struct IdleBuffer {
  uint64_t bytes = 0;
  Memory* memory = nullptr;
  uint64_t offset = 0;
};
struct IdleSemaphore {
  std::atomic<uint64_t> value = 0;
};
struct IdleEvent {
  std::atomic<bool> set = false;
};
struct QueryPool {
  std::vector<uint64_t> ticks;
};
struct CommandBuffer {
  std::vector<std::function<void()>> commands;
};
struct CommandPool {
  std::vector<std::unique_ptr<CommandBuffer>> buffers;
};
struct DescriptorPool {
  std::vector<std::unique_ptr<Nothing>> sets;
};
Nothing the_instance, the_physical_device, the_device;
std::array<Nothing, 8> the_queues; // one of each family

template <class Handle, class Object>
Handle to_handle(Object* object) {
  return reinterpret_cast<Handle>(object);
}
template <class Object, class Handle>
Object* from_handle(Handle handle) {
  return reinterpret_cast<Object*>(handle);
}

// Functions that make and destroy an object of which nothing is known.
template <class Handle, class Info, class Object = Nothing>
VKAPI_ATTR VkResult VKAPI_CALL make(VkDevice, const Info*, const VkAllocationCallbacks*, Handle* handle) {
  *handle = to_handle<Handle>(new Object);
  return VK_SUCCESS;
}
template <class Handle, class Object = Nothing>
VKAPI_ATTR void VKAPI_CALL destroy(VkDevice, Handle handle, const VkAllocationCallbacks*) {
  delete from_handle<Object>(handle);
}
// Functions whose arguments do not matter.
template <class... Arguments>
VKAPI_ATTR VkResult VKAPI_CALL succeed(Arguments...) {
  return VK_SUCCESS;
}
template <class... Arguments>
VKAPI_ATTR void VKAPI_CALL ignore(Arguments...) {}

VKAPI_ATTR VkResult VKAPI_CALL create_instance(const VkInstanceCreateInfo*, const VkAllocationCallbacks*,
                                               VkInstance* instance) {
  *instance = to_handle<VkInstance>(&the_instance);
  return VK_SUCCESS;
}
VKAPI_ATTR VkResult VKAPI_CALL instance_version(uint32_t* version) {
  *version = VK_API_VERSION_1_3;
  return VK_SUCCESS;
}
VKAPI_ATTR VkResult VKAPI_CALL no_layers(uint32_t* count, VkLayerProperties*) {
  *count = 0;
  return VK_SUCCESS;
}
VKAPI_ATTR VkResult VKAPI_CALL no_instance_extensions(const char*, uint32_t* count, VkExtensionProperties*) {
  *count = 0;
  return VK_SUCCESS;
}
VKAPI_ATTR VkResult VKAPI_CALL enumerate(VkInstance, uint32_t* count, VkPhysicalDevice* handles) {
  if (handles) *handles = to_handle<VkPhysicalDevice>(&the_physical_device);
  *count = 1;
  return VK_SUCCESS;
}
VKAPI_ATTR VkResult VKAPI_CALL create_device(VkPhysicalDevice, const VkDeviceCreateInfo*,
                                             const VkAllocationCallbacks*, VkDevice* device) {
  *device = to_handle<VkDevice>(&the_device);
  return VK_SUCCESS;
}
VKAPI_ATTR void VKAPI_CALL get_queue(VkDevice, uint32_t family, uint32_t, VkQueue* queue) {
  *queue = to_handle<VkQueue>(&the_queues.at(family));
}

VKAPI_ATTR VkResult VKAPI_CALL allocate_memory(VkDevice, const VkMemoryAllocateInfo* info,
                                               const VkAllocationCallbacks*, VkDeviceMemory* handle) {
  auto memory = std::make_unique<Memory>();
  memory->bytes = info->allocationSize;
  *handle = to_handle<VkDeviceMemory>(memory.release());
  return VK_SUCCESS;
}
VKAPI_ATTR VkResult VKAPI_CALL map_memory(VkDevice, VkDeviceMemory handle, VkDeviceSize offset, VkDeviceSize,
                                          VkMemoryMapFlags, void** pointer) {
  Memory& memory = *from_handle<Memory>(handle);
  if (!memory.data) memory.data.reset(std::calloc(memory.bytes, 1));
  *pointer = static_cast<std::byte*>(memory.data.get()) + offset;
  return memory.data ? VK_SUCCESS : VK_ERROR_OUT_OF_HOST_MEMORY;
}
VKAPI_ATTR VkResult VKAPI_CALL create_buffer(VkDevice, const VkBufferCreateInfo* info,
                                             const VkAllocationCallbacks*, VkBuffer* handle) {
  *handle = to_handle<VkBuffer>(new IdleBuffer{info->size});
  return VK_SUCCESS;
}
VKAPI_ATTR void VKAPI_CALL buffer_requirements(VkDevice, VkBuffer handle,
                                               VkMemoryRequirements* requirements) {
  constexpr uint64_t alignment = 256;
  const uint64_t bytes = from_handle<IdleBuffer>(handle)->bytes;
  *requirements = {(bytes + alignment - 1) / alignment * alignment, alignment, UINT32_MAX};
}
VKAPI_ATTR VkResult VKAPI_CALL bind_memory(VkDevice, VkBuffer handle, VkDeviceMemory memory,
                                           VkDeviceSize offset) {
  IdleBuffer& buffer = *from_handle<IdleBuffer>(handle);
  buffer.memory = from_handle<Memory>(memory);
  buffer.offset = offset;
  return VK_SUCCESS;
}
VKAPI_ATTR VkDeviceAddress VKAPI_CALL buffer_address(VkDevice, const VkBufferDeviceAddressInfo* info) {
  return reinterpret_cast<VkDeviceAddress>(info->buffer);
}

VKAPI_ATTR VkResult VKAPI_CALL wait_semaphores(VkDevice, const VkSemaphoreWaitInfo* info, uint64_t) {
  for (uint32_t i = 0; i < info->semaphoreCount; ++i) {
    if (from_handle<IdleSemaphore>(info->pSemaphores[i])->value < info->pValues[i]) return VK_TIMEOUT;
  }
  return VK_SUCCESS;
}
VKAPI_ATTR VkResult VKAPI_CALL semaphore_value(VkDevice, VkSemaphore semaphore, uint64_t* value) {
  *value = from_handle<IdleSemaphore>(semaphore)->value;
  return VK_SUCCESS;
}
VKAPI_ATTR VkResult VKAPI_CALL event_status(VkDevice, VkEvent event) {
  return from_handle<IdleEvent>(event)->set ? VK_EVENT_SET : VK_EVENT_RESET;
}
VKAPI_ATTR VkResult VKAPI_CALL reset_event(VkDevice, VkEvent event) {
  from_handle<IdleEvent>(event)->set = false;
  return VK_SUCCESS;
}
VKAPI_ATTR VkResult VKAPI_CALL create_query_pool(VkDevice, const VkQueryPoolCreateInfo* info,
                                                 const VkAllocationCallbacks*, VkQueryPool* handle) {
  *handle = to_handle<VkQueryPool>(new QueryPool{std::vector<uint64_t>(info->queryCount)});
  return VK_SUCCESS;
}

VKAPI_ATTR VkResult VKAPI_CALL allocate_sets(VkDevice, const VkDescriptorSetAllocateInfo* info,
                                             VkDescriptorSet* sets) {
  DescriptorPool& pool = *from_handle<DescriptorPool>(info->descriptorPool);
  for (uint32_t i = 0; i < info->descriptorSetCount; ++i) {
    pool.sets.push_back(std::make_unique<Nothing>());
    sets[i] = to_handle<VkDescriptorSet>(pool.sets.back().get());
  }
  return VK_SUCCESS;
}
VKAPI_ATTR VkResult VKAPI_CALL create_pipelines(VkDevice, VkPipelineCache, uint32_t count,
                                                const VkComputePipelineCreateInfo*,
                                                const VkAllocationCallbacks*, VkPipeline* pipelines) {
  for (uint32_t i = 0; i < count; ++i) pipelines[i] = to_handle<VkPipeline>(new Nothing);
  return VK_SUCCESS;
}
VKAPI_ATTR VkResult VKAPI_CALL no_cache_data(VkDevice, VkPipelineCache, size_t* size, void*) {
  *size = 0;
  return VK_SUCCESS;
}

VKAPI_ATTR VkResult VKAPI_CALL allocate_commands(VkDevice, const VkCommandBufferAllocateInfo* info,
                                                 VkCommandBuffer* buffers) {
  CommandPool& pool = *from_handle<CommandPool>(info->commandPool);
  for (uint32_t i = 0; i < info->commandBufferCount; ++i) {
    pool.buffers.push_back(std::make_unique<CommandBuffer>());
    buffers[i] = to_handle<VkCommandBuffer>(pool.buffers.back().get());
  }
  return VK_SUCCESS;
}
VKAPI_ATTR VkResult VKAPI_CALL begin_commands(VkCommandBuffer buffer, const VkCommandBufferBeginInfo*) {
  from_handle<CommandBuffer>(buffer)->commands.clear();
  return VK_SUCCESS;
}
void record(VkCommandBuffer buffer, std::function<void()> command) {
  from_handle<CommandBuffer>(buffer)->commands.push_back(std::move(command));
}
VKAPI_ATTR void VKAPI_CALL set_event(VkCommandBuffer buffer, VkEvent event, VkPipelineStageFlags) {
  record(buffer, [event] { from_handle<IdleEvent>(event)->set = true; });
}
VKAPI_ATTR void VKAPI_CALL write_timestamp(VkCommandBuffer buffer, VkPipelineStageFlagBits, VkQueryPool pool,
                                           uint32_t index) {
  record(buffer, [pool, index] { from_handle<QueryPool>(pool)->ticks.at(index) = ticks(); });
}
VKAPI_ATTR void VKAPI_CALL copy_results(VkCommandBuffer buffer, VkQueryPool pool, uint32_t first,
                                        uint32_t count, VkBuffer to, VkDeviceSize offset, VkDeviceSize stride,
                                        VkQueryResultFlags) {
  record(buffer, [=] {
    const IdleBuffer& target = *from_handle<IdleBuffer>(to);
    auto* const data = static_cast<std::byte*>(target.memory->data.get());
    for (uint32_t i = 0; data && i < count; ++i) {
      const uint64_t value = from_handle<QueryPool>(pool)->ticks.at(first + i);
      std::memcpy(data + target.offset + offset + i * stride, &value, sizeof(value));
    }
  });
}
VKAPI_ATTR VkResult VKAPI_CALL submit(VkQueue, uint32_t count, const VkSubmitInfo* submissions, VkFence) {
  for (uint32_t i = 0; i < count; ++i) {
    const VkSubmitInfo& info = submissions[i];
    for (uint32_t j = 0; j < info.commandBufferCount; ++j) {
      for (const auto& command : from_handle<CommandBuffer>(info.pCommandBuffers[j])->commands) command();
    }
    for (auto* next = static_cast<const VkBaseInStructure*>(info.pNext); next; next = next->pNext) {
      if (next->sType != VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO) continue;
      const auto* timeline = reinterpret_cast<const VkTimelineSemaphoreSubmitInfo*>(next);
      for (uint32_t j = 0; j < info.signalSemaphoreCount; ++j) {
        from_handle<IdleSemaphore>(info.pSignalSemaphores[j])->value = timeline->pSignalSemaphoreValues[j];
      }
    }
  }
  return VK_SUCCESS;
}

VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL device_function(VkDevice, const char* name) {
  return idle_vulkan(VK_NULL_HANDLE, name);
}

// A function of exactly the type that its name says.
template <class Type>
PFN_vkVoidFunction typed(Type function) {
  return reinterpret_cast<PFN_vkVoidFunction>(function);
}
#define IDLE(name, function)                                                                                 \
  { #name, typed < PFN_##name>(function) }

std::map<std::string_view, PFN_vkVoidFunction> all_functions() {
  return {
      IDLE(vkCreateInstance, create_instance),
      IDLE(vkEnumerateInstanceVersion, instance_version),
      IDLE(vkEnumerateInstanceLayerProperties, no_layers),
      IDLE(vkEnumerateInstanceExtensionProperties, no_instance_extensions),
      IDLE(vkDestroyInstance, ignore),
      IDLE(vkEnumeratePhysicalDevices, enumerate),
      IDLE(vkGetPhysicalDeviceProperties, ignore),
      IDLE(vkGetPhysicalDeviceProperties2, ignore),
      IDLE(vkGetPhysicalDeviceFeatures2, ignore),
      IDLE(vkGetPhysicalDeviceMemoryProperties2, ignore),
      IDLE(vkGetPhysicalDeviceQueueFamilyProperties, ignore),
      IDLE(vkEnumerateDeviceExtensionProperties, succeed),
      IDLE(vkCreateDevice, create_device),
      IDLE(vkGetDeviceProcAddr, device_function),
      IDLE(vkSetDebugUtilsObjectNameEXT, succeed),
      IDLE(vkDestroyDevice, ignore),
      IDLE(vkGetDeviceQueue, get_queue),
      IDLE(vkDeviceWaitIdle, succeed),
      IDLE(vkQueueSubmit, submit),
      IDLE(vkQueueWaitIdle, succeed),
      IDLE(vkAllocateMemory, allocate_memory),
      IDLE(vkFreeMemory, (destroy<VkDeviceMemory, Memory>)),
      IDLE(vkMapMemory, map_memory),
      IDLE(vkUnmapMemory, ignore),
      IDLE(vkCreateBuffer, create_buffer),
      IDLE(vkDestroyBuffer, (destroy<VkBuffer, IdleBuffer>)),
      IDLE(vkCreateBufferView, make),
      IDLE(vkDestroyBufferView, destroy),
      IDLE(vkGetBufferMemoryRequirements, buffer_requirements),
      IDLE(vkBindBufferMemory, bind_memory),
      IDLE(vkGetBufferDeviceAddress, buffer_address),
      IDLE(vkCreateSemaphore, (make<VkSemaphore, VkSemaphoreCreateInfo, IdleSemaphore>)),
      IDLE(vkDestroySemaphore, (destroy<VkSemaphore, IdleSemaphore>)),
      IDLE(vkWaitSemaphores, wait_semaphores),
      IDLE(vkGetSemaphoreCounterValue, semaphore_value),
      IDLE(vkCreateShaderModule, make),
      IDLE(vkDestroyShaderModule, destroy),
      IDLE(vkCreateDescriptorSetLayout, make),
      IDLE(vkDestroyDescriptorSetLayout, destroy),
      IDLE(vkCreateDescriptorPool, (make<VkDescriptorPool, VkDescriptorPoolCreateInfo, DescriptorPool>)),
      IDLE(vkDestroyDescriptorPool, (destroy<VkDescriptorPool, DescriptorPool>)),
      IDLE(vkAllocateDescriptorSets, allocate_sets),
      IDLE(vkUpdateDescriptorSets, ignore),
      IDLE(vkCmdBindDescriptorSets, ignore),
      IDLE(vkCreatePipelineLayout, make),
      IDLE(vkDestroyPipelineLayout, destroy),
      IDLE(vkCreateComputePipelines, create_pipelines),
      IDLE(vkDestroyPipeline, destroy),
      IDLE(vkCreatePipelineCache, make),
      IDLE(vkDestroyPipelineCache, destroy),
      IDLE(vkGetPipelineCacheData, no_cache_data),
      IDLE(vkCreateCommandPool, (make<VkCommandPool, VkCommandPoolCreateInfo, CommandPool>)),
      IDLE(vkDestroyCommandPool, (destroy<VkCommandPool, CommandPool>)),
      IDLE(vkAllocateCommandBuffers, allocate_commands),
      IDLE(vkFreeCommandBuffers, ignore),
      IDLE(vkBeginCommandBuffer, begin_commands),
      IDLE(vkEndCommandBuffer, succeed),
      IDLE(vkCmdBindPipeline, ignore),
      IDLE(vkCmdPushConstants, ignore),
      IDLE(vkCmdDispatch, ignore),
      IDLE(vkCmdDispatchBase, ignore),
      IDLE(vkCmdPipelineBarrier, ignore),
      IDLE(vkCmdCopyBuffer, ignore),
      IDLE(vkCmdCopyImageToBuffer, ignore),
      IDLE(vkCmdFillBuffer, ignore),
      IDLE(vkResetCommandPool, succeed),
      IDLE(vkCreateEvent, (make<VkEvent, VkEventCreateInfo, IdleEvent>)),
      IDLE(vkDestroyEvent, (destroy<VkEvent, IdleEvent>)),
      IDLE(vkGetEventStatus, event_status),
      IDLE(vkResetEvent, reset_event),
      IDLE(vkCmdSetEvent, set_event),
      IDLE(vkCreateQueryPool, create_query_pool),
      IDLE(vkDestroyQueryPool, (destroy<VkQueryPool, QueryPool>)),
      IDLE(vkCmdResetQueryPool, ignore),
      IDLE(vkCmdWriteTimestamp, write_timestamp),
      IDLE(vkCmdCopyQueryPoolResults, copy_results),
  };
}

} // namespace

PFN_vkVoidFunction VKAPI_CALL idle_vulkan(VkInstance, const char* name) {
  static const std::map<std::string_view, PFN_vkVoidFunction> functions = all_functions();
  const auto found = functions.find(name);
  return found == functions.end() ? nullptr : found->second;
}

void set_idle_clock(uint32_t valid_bits, double period_ns) {
  idle_clock = {valid_bits < 64 ? (uint64_t{1} << valid_bits) - 1 : UINT64_MAX, period_ns, Clock::now()};
}
