#pragma once

#include "gpu/vulkan_table.h"

// An instance that is never destroyed, and keeps the machine's Vulkan drivers loaded; null where there are
// none.
VkInstance resident_instance();
