#pragma once

#include "gpu/vulkan_table.h"

// A driver with one device, which does nothing: shaders are not compiled, what is submitted has finished at
// once, and memory is zero until the host writes it. Only events and timestamps are as on a device that
// works. So a device of any kind can be planned for, and steps recorded and submitted, in no time.
PFN_vkVoidFunction VKAPI_CALL idle_vulkan(VkInstance instance, const char* name);

// Of timestamps from here on. They begin shortly before the greatest value of their bits.
void set_idle_clock(uint32_t valid_bits, double period_ns);
