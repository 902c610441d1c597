#pragma once

#include <vulkan/vulkan.h>

namespace npc {

// Opens the machine's Vulkan loader as a library, which stays open. For use without a window: SDL opens one
// itself.
PFN_vkGetInstanceProcAddr load_vulkan();

} // namespace npc
