// The memory of a discrete device, which has a heap of its own, a small window into it that the host can map,
// and the host's memory, cached and not. The device itself is the test's own, which has one kind of memory.
#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>

#include "kernel/probe/open_device.h"
#include "stage/local_stages.h"
#include "step/runner.h"
#include "support/files/paths.h"
#include "support/model.h"
#include "support/require.h"
#include "support/skip.h"
#include "support/vulkan/gpu.h"
#include "support/vulkan/mapped_memory.h"

using namespace pumice;

namespace {

enum Type : uint32_t { own, host, host_cached, window, types }; // in the order that Vulkan asks for
constexpr VkMemoryPropertyFlags mapped =
    VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
constexpr VkMemoryType type_table[types] = {{VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT, 0},
                                            {mapped, 2},
                                            {mapped | VK_MEMORY_PROPERTY_HOST_CACHED_BIT, 2},
                                            {VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT | mapped, 1}};

VulkanTable real;
VkPhysicalDeviceMemoryProperties real_memory = {};
uint64_t heaps[3] = {};
std::mutex mutex; // of what follows: kernels are compiled by several threads
struct Allocation {
  uint32_t type;
  uint64_t bytes;
};
std::map<VkDeviceMemory, Allocation> allocations;
std::atomic<uint32_t> pointer_types = 0; // that the driver imports the host's memory as

uint64_t taken(uint32_t heap) {
  uint64_t sum = 0;
  for (const auto& [memory, each] : allocations)
    sum += type_table[each.type].heapIndex == heap ? each.bytes : 0;
  return sum;
}

size_t count_of(Type type) {
  return std::ranges::count_if(allocations, [&](const auto& each) { return each.second.type == type; });
}

VKAPI_ATTR void VKAPI_CALL discrete_properties(VkPhysicalDevice device, VkPhysicalDeviceProperties2* found) {
  real.vkGetPhysicalDeviceProperties2(device, found);
  found->properties.deviceType = VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU;
}

VKAPI_ATTR void VKAPI_CALL discrete_type(VkPhysicalDevice device, VkPhysicalDeviceProperties* found) {
  real.vkGetPhysicalDeviceProperties(device, found);
  found->deviceType = VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU;
}

VKAPI_ATTR void VKAPI_CALL discrete_memory(VkPhysicalDevice device,
                                           VkPhysicalDeviceMemoryProperties2* found) {
  real.vkGetPhysicalDeviceMemoryProperties2(device, found);
  VkPhysicalDeviceMemoryProperties& memory = found->memoryProperties;
  memory.memoryHeapCount = 3;
  for (uint32_t heap = 0; heap < 3; ++heap) {
    memory.memoryHeaps[heap] = {heaps[heap],
                                heap < 2 ? VkMemoryHeapFlags{VK_MEMORY_HEAP_DEVICE_LOCAL_BIT} : 0};
  }
  memory.memoryTypeCount = types;
  std::ranges::copy(type_table, memory.memoryTypes);
}

VKAPI_ATTR void VKAPI_CALL any_type(VkDevice device, VkBuffer buffer, VkMemoryRequirements* found) {
  real.vkGetBufferMemoryRequirements(device, buffer, found);
  found->memoryTypeBits = (1u << types) - 1;
}

VKAPI_ATTR VkResult VKAPI_CALL allocate(VkDevice device, const VkMemoryAllocateInfo* info,
                                        const VkAllocationCallbacks* callbacks, VkDeviceMemory* memory) {
  const std::lock_guard lock(mutex);
  const uint32_t heap = type_table[info->memoryTypeIndex].heapIndex;
  if (taken(heap) + info->allocationSize > heaps[heap]) return VK_ERROR_OUT_OF_DEVICE_MEMORY;
  VkMemoryAllocateInfo only = *info;
  const auto* next = static_cast<const VkBaseInStructure*>(info->pNext);
  const bool imported = next && next->sType == VK_STRUCTURE_TYPE_IMPORT_MEMORY_HOST_POINTER_INFO_EXT;
  only.memoryTypeIndex = mapped_memory_type(real_memory, imported ? pointer_types.load() : ~0u);
  const VkResult result = real.vkAllocateMemory(device, &only, callbacks, memory);
  if (result == VK_SUCCESS) allocations[*memory] = {info->memoryTypeIndex, info->allocationSize};
  return result;
}

VKAPI_ATTR VkResult VKAPI_CALL host_pointer(VkDevice device, VkExternalMemoryHandleTypeFlagBits kind,
                                            const void* pointer, VkMemoryHostPointerPropertiesEXT* found) {
  const VkResult result = real.vkGetMemoryHostPointerPropertiesEXT(device, kind, pointer, found);
  pointer_types = found->memoryTypeBits;
  found->memoryTypeBits = 1u << host | 1u << host_cached;
  return result;
}

VKAPI_ATTR void VKAPI_CALL free_memory(VkDevice device, VkDeviceMemory memory,
                                       const VkAllocationCallbacks* callbacks) {
  const std::lock_guard lock(mutex);
  allocations.erase(memory);
  real.vkFreeMemory(device, memory, callbacks);
}

VKAPI_ATTR VkResult VKAPI_CALL map(VkDevice device, VkDeviceMemory memory, VkDeviceSize offset,
                                   VkDeviceSize size, VkMemoryMapFlags flags, void** data) {
  const std::lock_guard lock(mutex);
  CHECK((type_table[allocations.at(memory).type].propertyFlags & mapped) == mapped);
  return real.vkMapMemory(device, memory, offset, size, flags, data);
}

DeviceContext open(const InstanceOptions& options) {
  const auto instance = require(Instance::create(options));
  return require(open_device(instance, require(instance->choose("")), {}));
}

// The real device. It must live as long as the others, because its driver would be unloaded.
DeviceContext open_plain() {
  const DeviceContext plain = open({});
  real = plain.device->table();
  real_memory = plain.device->memory_properties();
  return plain;
}

DeviceContext open_discrete(uint64_t own_bytes, uint64_t window_bytes) {
  heaps[0] = own_bytes;
  heaps[1] = window_bytes;
  heaps[2] = uint64_t{1} << 30;
  InstanceOptions options;
  options.table.vkGetPhysicalDeviceProperties = discrete_type;
  options.table.vkGetPhysicalDeviceProperties2 = discrete_properties;
  options.table.vkGetPhysicalDeviceMemoryProperties2 = discrete_memory;
  options.table.vkGetBufferMemoryRequirements = any_type;
  options.table.vkAllocateMemory = allocate;
  options.table.vkFreeMemory = free_memory;
  options.table.vkMapMemory = map;
  options.table.vkGetMemoryHostPointerPropertiesEXT = host_pointer;
  return open(options);
}

std::vector<float> logits(const DeviceContext& context) {
  const auto model = require(Model::load(stories_model(), context));
  RunnerOptions options;
  options.size.context = 64;
  options.readable = {"logits"};
  const auto runner = require(Runner::create(model, options));
  std::vector<StepToken> rows = {{1}, {9, 1}, {38, 2}, {500, 3}, {7, 4}};
  rows.back().output = true;
  REQUIRE(runner->write_step(rows).ok());
  REQUIRE(runner->submit(static_cast<uint32_t>(rows.size())).ok());
  return require(runner->read("logits", 1));
}

} // namespace

TEST_CASE("each use of memory gets its kind, and a second one when a heap is full") {
  const DeviceContext plain = open_plain();
  const DeviceContext context = open_discrete(uint64_t{1} << 30, uint64_t{4} << 20);
  const auto type_of = [&](MemoryUse use, uint64_t bytes, std::vector<Buffer>& kept) {
    size_t before[types];
    for (uint32_t type = 0; type < types; ++type) before[type] = count_of(static_cast<Type>(type));
    kept.push_back(require(Buffer::create(context.device, bytes, use)));
    for (uint32_t type = 0; type < types; ++type) {
      if (count_of(static_cast<Type>(type)) > before[type]) return static_cast<Type>(type);
    }
    return types;
  };
  std::vector<Buffer> kept;
  CHECK(type_of(MemoryUse::device, 1000, kept) == own);
  CHECK(kept.back().mapped().empty());
  CHECK(type_of(MemoryUse::upload, 1000, kept) == host);
  CHECK_FALSE(kept.back().cached());
  CHECK(type_of(MemoryUse::readback, 1000, kept) == host_cached);
  CHECK(kept.back().cached());
  CHECK(type_of(MemoryUse::shared, 3 << 20, kept) == window);
  CHECK(type_of(MemoryUse::shared, 3 << 20, kept) == host);
  CHECK_FALSE(kept.back().mapped().empty());
  const auto large = Buffer::create(context.device, uint64_t{1} << 30, MemoryUse::device);
  REQUIRE_FALSE(large.ok()); // kernels would crawl in the host's memory
  CHECK(large.error().code == Code::out_of_memory);
}

TEST_CASE("a discrete device's outputs are read from memory that the host caches") {
  const DeviceContext plain = open_plain();
  const std::vector<float> expected = logits(plain);
  const DeviceContext discrete = open_discrete(uint64_t{1} << 30, uint64_t{1} << 20);
  const std::vector<float> found = logits(discrete);
  REQUIRE(found.size() == expected.size());
  CHECK(relative_rms(found, expected) < 1e-3); // the kernels are those of another kind of device
}

TEST_CASE("stages on devices with memory of their own copy what they hand on once on each side") {
  const DeviceContext plain = open_plain();
  if (!plain.device->can_import()) return skip("the device imports no memory of the host");
  const std::vector<uint32_t> prompt = {1, 9, 38, 500, 7, 4, 3, 2, 1};
  const auto expected = continue_greedily(require(Model::load(stories_model(), plain)), prompt, 12, 4);
  const DeviceContext first = open_discrete(uint64_t{1} << 30, uint64_t{4} << 20);
  const DeviceContext second = open_discrete(uint64_t{1} << 30, uint64_t{4} << 20);
  REQUIRE(first.device->can_import());
  const auto staged =
      require(load_in_stages(stories_model(), std::vector{first, second}, std::vector<uint32_t>{2, 3}));
  CHECK(staged->upstream()->describe().at(0).find("next device imports") != std::string::npos);
  CHECK(continue_greedily(staged, prompt, 12, 4) == expected);
}
