#pragma once

#include <stdexcept>
#include <string>

#include <fmt/format.h>
#include <vulkan/vulkan.h>

namespace npc {

// An error that ends the demo, as a sentence. main() prints it; the destructors release everything before.
struct Failure : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct DeviceLost : Failure {
  DeviceLost() : Failure("the device was lost: the driver has stopped it, or it was removed") {}
};

// Throws a Failure unless a call of Vulkan succeeded.
inline void check(VkResult result, const char* what) {
  if (result == VK_SUCCESS) return;
  if (result == VK_ERROR_DEVICE_LOST) throw DeviceLost();
  if (result == VK_ERROR_OUT_OF_DEVICE_MEMORY) throw Failure(fmt::format("{}: out of device memory", what));
  if (result == VK_ERROR_OUT_OF_HOST_MEMORY) throw Failure(fmt::format("{}: out of memory", what));
  throw Failure(fmt::format("{}: Vulkan returned {}", what, static_cast<int>(result)));
}

} // namespace npc
