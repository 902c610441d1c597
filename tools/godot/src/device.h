// The Vulkan device that models are on: the engine's own, or one of Pumice's.
#pragma once

#include <pumice/pumice.h>

#include <memory>
#include <string>

#include "engine.h"

namespace godot {

// Of PumiceModel.device.
enum class Where : int64_t {
  automatic = 0, // on the engine's if it can be used
  engine = 1,
  own = 2
};

// The handles of the device that Godot draws with. None where it draws with none, or not with Vulkan.
struct EngineDevice {
  VkInstance instance = nullptr;
  VkPhysicalDevice physical_device = nullptr;
  VkDevice device = nullptr;
  VkQueue queue = nullptr;
  uint32_t queue_family = 0;
};

// On the main thread.
EngineDevice find_engine_device();

// Makes the device, or gives the one that there is: all models share one of each kind as long as one of them
// uses it. From any thread. Where it fails, `failure` has a sentence.
std::shared_ptr<pumice_device> open_device(Where where, const EngineDevice& engine,
                                           const std::string& cache_folder, bool& is_engine_device,
                                           std::string& failure);

} // namespace godot
