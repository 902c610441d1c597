#pragma once

#include "gpu/capabilities.h"

namespace pumice {

// What every buffer of a device may be used for. Whether the host's memory can be a buffer is asked for the
// same uses.
inline VkBufferUsageFlags buffer_usage(const Capabilities& device) {
  constexpr VkBufferUsageFlags all = VK_BUFFER_USAGE_STORAGE_BUFFER_BIT | VK_BUFFER_USAGE_TRANSFER_SRC_BIT |
                                     VK_BUFFER_USAGE_TRANSFER_DST_BIT;
  if (!device.uses_addresses()) return all;
  return all | VK_BUFFER_USAGE_SHADER_DEVICE_ADDRESS_BIT | VK_BUFFER_USAGE_UNIFORM_TEXEL_BUFFER_BIT;
}

} // namespace pumice
