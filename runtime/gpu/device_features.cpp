#include "gpu/device_features.h"

#include <algorithm>
#include <string_view>

#include <fmt/format.h>

namespace pumice {

template <class Structure>
Structure* DeviceFeatures::find(VkStructureType type) {
  for (auto* next = static_cast<VkBaseOutStructure*>(application_); next; next = next->pNext) {
    if (next->sType == type) return reinterpret_cast<Structure*>(next);
  }
  return nullptr;
}

// The application's structure of this kind, or else our own, which becomes a part of the chain.
template <class Structure>
Structure& DeviceFeatures::structure(Structure& own) {
  if (auto* found = find<Structure>(own.sType)) return *found;
  own.pNext = first_;
  first_ = &own;
  return own;
}

// Where the application has a structure of a whole Vulkan version, those of single features that this version
// contains may not stand beside it.
DeviceFeatures::DeviceFeatures(const Capabilities& chosen, void* chain) : application_(chain), first_(chain) {
  auto* const v11 =
      find<VkPhysicalDeviceVulkan11Features>(VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_FEATURES);
  auto* const v12 =
      find<VkPhysicalDeviceVulkan12Features>(VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES);
  auto* const v13 =
      find<VkPhysicalDeviceVulkan13Features>(VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_3_FEATURES);
  const std::vector<std::string> tiers = chosen.tiers();
  const auto has = [&](const char* tier) { return std::ranges::find(tiers, tier) != tiers.end(); };
  const bool matrices = has("cm") || has("cm2");

  // Newer instances do without them; which one the application has made, nothing tells.
  const auto name_promoted = [&](std::string_view wanted) {
    const auto found = std::ranges::find(chosen.promoted, wanted);
    if (found != chosen.promoted.end()) extensions_.push_back(*found);
  };
  name_promoted(VK_KHR_SHADER_FLOAT_CONTROLS_EXTENSION_NAME); // which the next one needs
  name_promoted(VK_KHR_SPIRV_1_4_EXTENSION_NAME);
  name_promoted(VK_KHR_TIMELINE_SEMAPHORE_EXTENSION_NAME);
  (v12 ? v12->timelineSemaphore : structure(timeline_).timelineSemaphore) = VK_TRUE;
  if (chosen.uses_addresses()) {
    (v12 ? v12->bufferDeviceAddress : structure(address_).bufferDeviceAddress) = VK_TRUE;
    name_promoted(VK_KHR_BUFFER_DEVICE_ADDRESS_EXTENSION_NAME);
  }
  if (chosen.portability_subset) extensions_.push_back(portability_subset_extension);
  if (chosen.host_memory_import) extensions_.push_back(VK_EXT_EXTERNAL_MEMORY_HOST_EXTENSION_NAME);
  if (chosen.full_subgroups && v13) {
    v13->subgroupSizeControl = v13->computeFullSubgroups = VK_TRUE;
  } else if (chosen.full_subgroups) {
    auto& control = structure(control_);
    control.subgroupSizeControl = control.computeFullSubgroups = VK_TRUE;
  }
  if (chosen.full_subgroups && chosen.subgroup_size_control_extension) {
    extensions_.push_back(VK_EXT_SUBGROUP_SIZE_CONTROL_EXTENSION_NAME);
  }
  if (chosen.integer_dot_product) {
    (v13 ? v13->shaderIntegerDotProduct : structure(dot_).shaderIntegerDotProduct) = VK_TRUE;
    extensions_.push_back(VK_KHR_SHADER_INTEGER_DOT_PRODUCT_EXTENSION_NAME);
  }
  if (has("half8")) {
    (v11 ? v11->storageBuffer16BitAccess : structure(storage_16bit_).storageBuffer16BitAccess) = VK_TRUE;
  }
  if (has("half8") || matrices) {
    (v12 ? v12->shaderFloat16 : structure(float16_).shaderFloat16) = VK_TRUE;
    name_promoted(VK_KHR_SHADER_FLOAT16_INT8_EXTENSION_NAME);
  }
  if (matrices && v12) {
    v12->vulkanMemoryModel = v12->vulkanMemoryModelDeviceScope = VK_TRUE;
  } else if (matrices) {
    auto& model = structure(memory_model_);
    model.vulkanMemoryModel = model.vulkanMemoryModelDeviceScope = VK_TRUE;
  }
  if (matrices) {
    name_promoted(VK_KHR_VULKAN_MEMORY_MODEL_EXTENSION_NAME);
    structure(matrix_).cooperativeMatrix = VK_TRUE;
    extensions_.push_back(VK_KHR_COOPERATIVE_MATRIX_EXTENSION_NAME);
  }
  if (has("cm2")) {
    auto& matrix2 = structure(matrix2_);
    matrix2.cooperativeMatrixFlexibleDimensions = VK_TRUE;
    matrix2.cooperativeMatrixWorkgroupScope |= static_cast<VkBool32>(chosen.workgroup_matrices);
    extensions_.push_back(VK_NV_COOPERATIVE_MATRIX_2_EXTENSION_NAME);
  }
}

Status check_usable(const Capabilities& device) {
  if (device.usable()) return {};
  return Error{Code::unsupported, fmt::format("device {} ({}) cannot be used", device.index, device.name),
               device.problems};
}

std::vector<std::string> what_is_lost(const Capabilities& physical, const Capabilities& enabled) {
  std::vector<std::string> lost;
  const std::vector<std::string> could = physical.tiers(), can = enabled.tiers();
  const auto loses = [&](const char* tier) {
    return std::ranges::find(could, tier) != could.end() && std::ranges::find(can, tier) == can.end();
  };
  const auto say = [&](const char* features, const char* cost) {
    lost.push_back(fmt::format("{}: {} not switched on in the application's VkDevice: {} "
                               "(pumice_features_create switches on what is of use)",
                               physical.name, features, cost));
  };
  if (loses("cpu8") && !enabled.spirv_1_5) {
    lost.push_back(
        fmt::format("{}: the application's instance was made for Vulkan 1.1, and the kernels for CPUs "
                    "need 1.2: without them texts take several times as long",
                    physical.name));
  } else if (loses("cpu8")) {
    say("bufferDeviceAddress is", "the kernels for CPUs need it, and without them texts take several times "
                                  "as long, 3 to 6 times where it was measured");
  }
  // CPUs do without the others; not every driver is faster with half8.
  if (std::ranges::find(could, "cpu8") != could.end()) return lost;
  if (physical.kernel_subgroup_size() && !enabled.kernel_subgroup_size()) {
    say("subgroupSizeControl and computeFullSubgroups are",
        "the kernels that generate tokens need them, and slower ones take their place");
  }
  if (physical.integer_dot_product && !enabled.integer_dot_product) {
    say("shaderIntegerDotProduct, with VK_KHR_shader_integer_dot_product, is",
        "the kernels for quantised weights that need it cannot be measured and chosen");
  }
  if (physical.multiplies_matrices() && !enabled.multiplies_matrices()) {
    say("cooperative matrices, with vulkanMemoryModel, shaderFloat16 and subgroupSizeControl, are",
        "the kernels for prompts that need them cannot be measured and chosen");
  }
  return lost;
}

} // namespace pumice
