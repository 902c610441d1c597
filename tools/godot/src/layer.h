// A Vulkan layer in this library, which is around the device that Godot makes. Godot switches on only those
// features that it uses itself, and Pumice needs timeline semaphores; nor does Godot lend anybody the lock of
// its queue, and threads of both submit to it. The layer adds what pumice_features_create asks for, and lets
// one thread at a time use a queue.
//
// Vulkan's loader finds layers by environment variables. They are set before Godot makes its instance, and
// taken back afterwards.
#pragma once

#include <pumice/pumice.h>

namespace godot::layer {

// Before Godot makes its instance: names the layer to the loader.
void announce();
// Afterwards: instances that others make do not have it.
void withdraw();

// Whether a device was made with it.
bool hooked();
// The loader's function, as the program has it.
pumice_get_instance_proc_addr get_instance_proc_addr();
// Of that device: for pumice_vulkan.
const void* features();
const char* const* extensions(uint32_t* count);

} // namespace godot::layer
