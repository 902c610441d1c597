#pragma once

#include <vulkan/vulkan.h>

namespace npc {

// The machine's Vulkan loader, opened as a library and left open; a window brings its own.
PFN_vkGetInstanceProcAddr load_vulkan();

} // namespace npc
