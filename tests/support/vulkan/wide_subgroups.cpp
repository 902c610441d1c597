#include "support/vulkan/wide_subgroups.h"

#include <cstdlib>
#include <cstring>
#include <map>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>

#include "gpu/instance.h"
#include "gpu/kernel_table.h"
#include "gpu/spirv.h"

using namespace pumice;

namespace pumice {

#ifdef PUMICE_TEST_WIDTHS
std::span<const KernelBinary> wide_kernel_binaries(); // made by the build
#else
std::span<const KernelBinary> wide_kernel_binaries() {
  return {};
}
#endif

} // namespace pumice

namespace {

constexpr uint32_t width_id = 99; // as in wide_subgroups/common/subgroup.glsl

uint32_t wanted_width() {
  const char* width = std::getenv("PUMICE_TEST_SUBGROUP");
  return width ? static_cast<uint32_t>(std::strtoul(width, nullptr, 10)) : 0;
}

VulkanTable real; // those that are replaced

VKAPI_ATTR void VKAPI_CALL properties_of(VkPhysicalDevice device, VkPhysicalDeviceProperties2* properties) {
  real.vkGetPhysicalDeviceProperties2(device, properties);
  for (auto* part = static_cast<VkBaseOutStructure*>(properties->pNext); part; part = part->pNext) {
    if (part->sType == VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_PROPERTIES) {
      reinterpret_cast<VkPhysicalDeviceSubgroupProperties*>(part)->subgroupSize = wanted_width();
    } else if (part->sType == VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_PROPERTIES) {
      auto& sizes = *reinterpret_cast<VkPhysicalDeviceSubgroupSizeControlProperties*>(part);
      sizes.minSubgroupSize = sizes.maxSubgroupSize = wanted_width();
    }
  }
}

VKAPI_ATTR void VKAPI_CALL features_of(VkPhysicalDevice device, VkPhysicalDeviceFeatures2* features) {
  real.vkGetPhysicalDeviceFeatures2(device, features);
  for (auto* part = static_cast<VkBaseOutStructure*>(features->pNext); part; part = part->pNext) {
    if (part->sType == VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_COOPERATIVE_MATRIX_FEATURES_KHR &&
        !std::getenv("PUMICE_TEST_MATRICES")) {
      reinterpret_cast<VkPhysicalDeviceCooperativeMatrixFeaturesKHR*>(part)->cooperativeMatrix = VK_FALSE;
    }
  }
}

// By the code that they replace.
std::map<const uint32_t*, std::span<const uint32_t>> wide_codes() {
  std::map<const uint32_t*, std::span<const uint32_t>> codes;
  for (const KernelBinary& wide : wide_kernel_binaries()) {
    codes[find_kernel(wide.name)->code().data()] = wide.code();
  }
  return codes;
}

VKAPI_ATTR VkResult VKAPI_CALL create_module(VkDevice device, const VkShaderModuleCreateInfo* info,
                                             const VkAllocationCallbacks* callbacks, VkShaderModule* module) {
  static const std::map<const uint32_t*, std::span<const uint32_t>> codes = wide_codes();
  VkShaderModuleCreateInfo wide = *info;
  if (const auto found = codes.find(info->pCode); found != codes.end()) {
    wide.pCode = found->second.data();
    wide.codeSize = found->second.size_bytes();
  } else if (uses_subgroups({info->pCode, info->codeSize / sizeof(uint32_t)})) {
    return VK_ERROR_FEATURE_NOT_PRESENT; // it would run with the device's own subgroups
  }
  return real.vkCreateShaderModule(device, &wide, callbacks, module);
}

// Tells kernels how wide subgroups are, whatever Pumice tells them.
VKAPI_ATTR VkResult VKAPI_CALL create_pipelines(VkDevice device, VkPipelineCache cache, uint32_t count,
                                                const VkComputePipelineCreateInfo* infos,
                                                const VkAllocationCallbacks* callbacks,
                                                VkPipeline* pipelines) {
  for (uint32_t i = 0; i < count; ++i) {
    VkComputePipelineCreateInfo info = infos[i];
    const VkSpecializationInfo& given = *info.stage.pSpecializationInfo;
    std::vector<VkSpecializationMapEntry> entries(given.pMapEntries, given.pMapEntries + given.mapEntryCount);
    std::vector<std::byte> data(given.dataSize + sizeof(uint32_t));
    const uint32_t width = wanted_width();
    if (given.dataSize > 0) std::memcpy(data.data(), given.pData, given.dataSize);
    std::memcpy(data.data() + given.dataSize, &width, sizeof width);
    entries.push_back({width_id, static_cast<uint32_t>(given.dataSize), sizeof width});
    const VkSpecializationInfo with_width{static_cast<uint32_t>(entries.size()), entries.data(), data.size(),
                                          data.data()};
    info.stage.pSpecializationInfo = &with_width;
    const VkResult result = real.vkCreateComputePipelines(device, cache, 1, &info, callbacks, &pipelines[i]);
    if (result != VK_SUCCESS) return result;
  }
  return VK_SUCCESS;
}

template <class Function>
PFN_vkVoidFunction replace(Function& kept, PFN_vkVoidFunction found, Function own) {
  kept = reinterpret_cast<Function>(found);
  return reinterpret_cast<PFN_vkVoidFunction>(own);
}

VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL device_function(VkDevice device, const char* called) {
  const PFN_vkVoidFunction found = real.vkGetDeviceProcAddr(device, called);
  const std::string_view name = called;
  if (name == "vkCreateShaderModule") return replace(real.vkCreateShaderModule, found, create_module);
  if (name == "vkCreateComputePipelines") {
    return replace(real.vkCreateComputePipelines, found, create_pipelines);
  }
  return found;
}

VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL instance_function(VkInstance instance, const char* called) {
  const PFN_vkVoidFunction found = real.vkGetInstanceProcAddr(instance, called);
  const std::string_view name = called;
  if (name == "vkGetPhysicalDeviceProperties2") {
    return replace(real.vkGetPhysicalDeviceProperties2, found, properties_of);
  }
  if (name == "vkGetPhysicalDeviceFeatures2") {
    return replace(real.vkGetPhysicalDeviceFeatures2, found, features_of);
  }
  if (name == "vkGetDeviceProcAddr") return replace(real.vkGetDeviceProcAddr, found, device_function);
  return found;
}

} // namespace

PFN_vkGetInstanceProcAddr wide_vulkan() {
  if (wanted_width() == 0) return nullptr;
  const auto loader = open_vulkan_loader();
  REQUIRE(loader.ok());
  real.vkGetInstanceProcAddr = *loader;
  return instance_function;
}

std::string why_not_wide() {
  if (wanted_width() == 0) return {};
  const auto instance = Instance::create();
  if (!instance.ok()) return {}; // a test says it
  const Result<Capabilities> device = (*instance)->choose();
  if (!device.ok() || (device->subgroup_shuffle && device->subgroup_size >= 8)) return {};
  return "wide subgroups are made of the device's own, which need at least 8 invocations and shuffles";
}
