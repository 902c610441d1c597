#include "doctor/memory_check.h"

#include <fmt/format.h>

#include "terminal/counted.h"

namespace pumice::command {

namespace {

constexpr std::pair<VkMemoryPropertyFlags, const char*> property_names[] = {
    {VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT, "device-local"},
    {VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT, "host-visible"},
    {VK_MEMORY_PROPERTY_HOST_COHERENT_BIT, "host-coherent"},
    {VK_MEMORY_PROPERTY_HOST_CACHED_BIT, "host-cached"}};

double in_gib(uint64_t bytes) {
  return static_cast<double>(bytes) / (1 << 30);
}

Json heaps_of(const VkPhysicalDeviceMemoryProperties& memory) {
  Json heaps = Json::array();
  for (uint32_t i = 0; i < memory.memoryHeapCount; ++i) {
    Json types = Json::array();
    for (uint32_t type = 0; type < memory.memoryTypeCount; ++type) {
      if (memory.memoryTypes[type].heapIndex != i) continue;
      Json properties = Json::array();
      for (const auto& [flag, name] : property_names) {
        if (memory.memoryTypes[type].propertyFlags & flag) properties.push_back(name);
      }
      types.push_back({{"type", type}, {"properties", std::move(properties)}});
    }
    heaps.push_back({{"bytes", memory.memoryHeaps[i].size},
                     {"device_local", (memory.memoryHeaps[i].flags & VK_MEMORY_HEAP_DEVICE_LOCAL_BIT) != 0},
                     {"types", std::move(types)}});
  }
  return heaps;
}

} // namespace

Verdict check_memory(const Device& device) {
  const MemoryReport report = device.memory();
  const VkPhysicalDeviceMemoryProperties& memory = device.memory_properties();
  Verdict verdict{Verdict::State::good, "memory",
                  fmt::format("{:.1f} of {:.1f} GiB free for models; {}, {}", in_gib(report.available),
                              in_gib(report.heap), counted(memory.memoryHeapCount, "heap"),
                              counted(memory.memoryTypeCount, "memory type"))};
  verdict.details = {{"available_bytes", report.available},
                     {"heap_bytes", report.heap},
                     {"allocation_bytes", device.capabilities().max_allocation_bytes},
                     {"storage_range_bytes", device.capabilities().max_storage_range_bytes},
                     {"heaps", heaps_of(memory)}};
  if (report.available < report.heap / 2) {
    verdict.state = Verdict::State::noticed;
    verdict.text += "; other programs use more than half";
    verdict.advice.push_back("Close other programs that use the device if a model does not fit.");
  }
  return verdict;
}

} // namespace pumice::command
