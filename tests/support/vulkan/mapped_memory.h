#pragma once

#include "gpu/vulkan_table.h"

// The first memory type that the host can map, of those allowed; Vulkan requires one. Tests that stand before
// a driver and make up memory types take all of it from here.
inline uint32_t mapped_memory_type(const VkPhysicalDeviceMemoryProperties& memory, uint32_t allowed = ~0u) {
  constexpr VkMemoryPropertyFlags mapped =
      VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
  uint32_t type = 0;
  while (type + 1 < memory.memoryTypeCount &&
         (!(allowed & 1u << type) || (memory.memoryTypes[type].propertyFlags & mapped) != mapped))
    ++type;
  return type;
}
