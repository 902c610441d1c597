// Devices through a replaced dispatch table: lists that no machine here has.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <string_view>
#include <vector>

#include "gpu/device_features.h"
#include "gpu/instance.h"
#include "support/command/messages.h"

using namespace pumice;

namespace {

// A fake Vulkan with up to three devices, each as its entry says.
struct FakeDevice {
  const char* name;
  VkPhysicalDeviceType type;
  uint32_t api_version;
  uint8_t uuid;
  bool timeline;
  uint32_t vendor = 0;
  bool matrices = false; // with both extensions
  bool cramped = false;  // one less of everything than is needed
  // Of subgroups: the least and the greatest size, whether a kernel can ask for one, and whether an extension
  // says so.
  uint32_t least = 8, greatest = 32;
  bool sized = true, size_extension = false;
  std::vector<VkQueueFamilyProperties> families = {{VK_QUEUE_COMPUTE_BIT, 1, 64, {}}};
  bool portability_subset = false;
  const char* core_extension = nullptr; // which says how many cores there are
};
std::vector<FakeDevice> fake_devices;
constexpr uint32_t amd = 0x1002, intel = 0x8086, nvidia = 0x10de, qualcomm = 0x5143;

VkPhysicalDevice handle_of(size_t index) {
  return reinterpret_cast<VkPhysicalDevice>(index + 1);
}
const FakeDevice& device_of(VkPhysicalDevice handle) {
  return fake_devices[reinterpret_cast<size_t>(handle) - 1];
}

// Extensions that the fake loader knows, and what the instance was made with.
std::vector<std::string_view> known_extensions;
VkInstanceCreateFlags instance_flags = 0;
size_t instance_extensions = 0;

VKAPI_ATTR VkResult VKAPI_CALL fake_create_instance(const VkInstanceCreateInfo* info,
                                                    const VkAllocationCallbacks*, VkInstance* instance) {
  for (uint32_t i = 0; i < info->enabledExtensionCount; ++i) {
    if (std::ranges::find(known_extensions, info->ppEnabledExtensionNames[i]) == known_extensions.end()) {
      return VK_ERROR_EXTENSION_NOT_PRESENT;
    }
  }
  instance_flags = info->flags;
  instance_extensions = info->enabledExtensionCount;
  *instance = reinterpret_cast<VkInstance>(1);
  return VK_SUCCESS;
}
VKAPI_ATTR VkResult VKAPI_CALL fake_version(uint32_t* version) {
  *version = VK_API_VERSION_1_3;
  return VK_SUCCESS;
}
VKAPI_ATTR void VKAPI_CALL fake_destroy_instance(VkInstance, const VkAllocationCallbacks*) {}
VKAPI_ATTR VkResult VKAPI_CALL fake_enumerate(VkInstance, uint32_t* count, VkPhysicalDevice* handles) {
  if (handles) {
    for (size_t i = 0; i < *count; ++i) handles[i] = handle_of(i);
  }
  *count = static_cast<uint32_t>(fake_devices.size());
  return VK_SUCCESS;
}
VKAPI_ATTR void VKAPI_CALL fake_properties(VkPhysicalDevice handle, VkPhysicalDeviceProperties* properties) {
  const FakeDevice& device = device_of(handle);
  *properties = {};
  std::strcpy(properties->deviceName, device.name);
  properties->deviceType = device.type;
  properties->apiVersion = device.api_version;
  properties->vendorID = device.vendor;
}
VKAPI_ATTR void VKAPI_CALL fake_properties2(VkPhysicalDevice handle,
                                            VkPhysicalDeviceProperties2* properties) {
  fake_properties(handle, &properties->properties);
  VkPhysicalDeviceLimits& limits = properties->properties.limits;
  limits.maxPerStageDescriptorStorageBuffers = limits.maxDescriptorSetStorageBuffers = 16;
  limits.maxComputeSharedMemorySize = 32768;
  limits.maxPushConstantsSize = 128;
  limits.maxComputeWorkGroupInvocations = 256;
  if (device_of(handle).cramped) {
    limits.maxPerStageDescriptorStorageBuffers = 7;
    limits.maxComputeSharedMemorySize = 16383;
    limits.maxPushConstantsSize = limits.maxComputeWorkGroupInvocations = 127;
  }
  for (auto* next = static_cast<VkBaseOutStructure*>(properties->pNext); next; next = next->pNext) {
    if (next->sType == VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_PROPERTIES) {
      auto* control = reinterpret_cast<VkPhysicalDeviceSubgroupSizeControlProperties*>(next);
      control->minSubgroupSize = device_of(handle).least;
      control->maxSubgroupSize = device_of(handle).greatest;
      control->requiredSubgroupSizeStages = device_of(handle).sized ? VK_SHADER_STAGE_COMPUTE_BIT : 0;
    }
    if (next->sType == VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_INTEGER_DOT_PRODUCT_PROPERTIES) {
      reinterpret_cast<VkPhysicalDeviceShaderIntegerDotProductProperties*>(next)
          ->integerDotProduct4x8BitPackedSignedAccelerated = device_of(handle).vendor == amd;
    }
    if (next->sType == VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_SM_BUILTINS_PROPERTIES_NV)
      reinterpret_cast<VkPhysicalDeviceShaderSMBuiltinsPropertiesNV*>(next)->shaderSMCount = 132;
    if (next->sType == VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_CORE_BUILTINS_PROPERTIES_ARM)
      reinterpret_cast<VkPhysicalDeviceShaderCoreBuiltinsPropertiesARM*>(next)->shaderCoreCount = 10;
    if (next->sType == VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_CORE_PROPERTIES_2_AMD)
      reinterpret_cast<VkPhysicalDeviceShaderCoreProperties2AMD*>(next)->activeComputeUnitCount = 84;
    if (next->sType == VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_CORE_PROPERTIES_AMD) {
      auto* core = reinterpret_cast<VkPhysicalDeviceShaderCorePropertiesAMD*>(next);
      core->shaderEngineCount = 6;
      core->shaderArraysPerEngineCount = 2;
      core->computeUnitsPerShaderArray = 8;
    }
    if (next->sType == VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_ID_PROPERTIES) {
      std::memset(reinterpret_cast<VkPhysicalDeviceIDProperties*>(next)->deviceUUID, device_of(handle).uuid,
                  VK_UUID_SIZE);
    }
    if (next->sType == VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_3_PROPERTIES) {
      reinterpret_cast<VkPhysicalDeviceMaintenance3Properties*>(next)->maxMemoryAllocationSize = uint64_t{1}
                                                                                                 << 30;
    }
    if (next->sType == VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_PROPERTIES) {
      reinterpret_cast<VkPhysicalDeviceSubgroupProperties*>(next)->subgroupSize =
          std::max(32u, device_of(handle).greatest);
    }
  }
}
VKAPI_ATTR void VKAPI_CALL fake_features(VkPhysicalDevice handle, VkPhysicalDeviceFeatures2* features) {
  for (auto* next = static_cast<VkBaseOutStructure*>(features->pNext); next; next = next->pNext) {
    const FakeDevice& device = device_of(handle);
    if (next->sType == VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_TIMELINE_SEMAPHORE_FEATURES) {
      reinterpret_cast<VkPhysicalDeviceTimelineSemaphoreFeatures*>(next)->timelineSemaphore = device.timeline;
    } else if (next->sType == VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_FLOAT16_INT8_FEATURES) {
      reinterpret_cast<VkPhysicalDeviceShaderFloat16Int8Features*>(next)->shaderFloat16 = VK_TRUE;
    } else if (next->sType == VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_MEMORY_MODEL_FEATURES) {
      auto* model = reinterpret_cast<VkPhysicalDeviceVulkanMemoryModelFeatures*>(next);
      model->vulkanMemoryModel = model->vulkanMemoryModelDeviceScope = VK_TRUE;
    } else if (next->sType == VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_FEATURES) {
      auto* control = reinterpret_cast<VkPhysicalDeviceSubgroupSizeControlFeatures*>(next);
      control->subgroupSizeControl = control->computeFullSubgroups = VK_TRUE;
    } else if (next->sType == VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_COOPERATIVE_MATRIX_FEATURES_KHR) {
      reinterpret_cast<VkPhysicalDeviceCooperativeMatrixFeaturesKHR*>(next)->cooperativeMatrix = VK_TRUE;
    } else if (next->sType == VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_COOPERATIVE_MATRIX_2_FEATURES_NV) {
      auto* matrix2 = reinterpret_cast<VkPhysicalDeviceCooperativeMatrix2FeaturesNV*>(next);
      matrix2->cooperativeMatrixFlexibleDimensions = VK_TRUE;
    }
  }
}
VKAPI_ATTR void VKAPI_CALL fake_memory(VkPhysicalDevice, VkPhysicalDeviceMemoryProperties2* memory) {
  VkPhysicalDeviceMemoryProperties& properties = memory->memoryProperties;
  properties = {};
  properties.memoryHeapCount = properties.memoryTypeCount = 1;
  properties.memoryHeaps[0] = {uint64_t{1} << 30, VK_MEMORY_HEAP_DEVICE_LOCAL_BIT};
  properties.memoryTypes[0].propertyFlags = VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT |
                                            VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT |
                                            VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
}
VKAPI_ATTR void VKAPI_CALL fake_queues(VkPhysicalDevice handle, uint32_t* count,
                                       VkQueueFamilyProperties* families) {
  const FakeDevice& device = device_of(handle);
  *count = static_cast<uint32_t>(device.families.size());
  if (families) std::ranges::copy(device.families, families);
}
VKAPI_ATTR VkResult VKAPI_CALL fake_extensions(VkPhysicalDevice handle, const char*, uint32_t* count,
                                               VkExtensionProperties* extensions) {
  std::vector<const char*> names;
  if (device_of(handle).matrices) {
    names = {VK_KHR_COOPERATIVE_MATRIX_EXTENSION_NAME, VK_NV_COOPERATIVE_MATRIX_2_EXTENSION_NAME};
  }
  if (device_of(handle).portability_subset) names.push_back(portability_subset_extension);
  if (device_of(handle).core_extension) names.push_back(device_of(handle).core_extension);
  if (device_of(handle).size_extension) names.push_back(VK_EXT_SUBGROUP_SIZE_CONTROL_EXTENSION_NAME);
  *count = static_cast<uint32_t>(names.size());
  for (size_t i = 0; extensions && i < names.size(); ++i) {
    std::strcpy(extensions[i].extensionName, names[i]);
  }
  return VK_SUCCESS;
}
// Four products of matrices, of which the runtime can use the second only.
template <class Properties>
void fill_matrices(uint32_t* count, Properties* all, void (*sizes)(Properties&, uint32_t)) {
  *count = 4;
  if (!all) return;
  for (uint32_t i = 0; i < 4; ++i) {
    all[i].AType = all[i].BType = VK_COMPONENT_TYPE_FLOAT16_KHR;
    all[i].CType = all[i].ResultType = i == 0 ? VK_COMPONENT_TYPE_FLOAT16_KHR : VK_COMPONENT_TYPE_FLOAT32_KHR;
    all[i].scope = i == 2 ? VK_SCOPE_WORKGROUP_KHR : VK_SCOPE_SUBGROUP_KHR;
    all[i].saturatingAccumulation = i == 3;
    sizes(all[i], i);
  }
}
int matrix_questions = 0;
VKAPI_ATTR VkResult VKAPI_CALL fake_matrices(VkPhysicalDevice, uint32_t* count,
                                             VkCooperativeMatrixPropertiesKHR* all) {
  ++matrix_questions;
  fill_matrices<VkCooperativeMatrixPropertiesKHR>(count, all, [](auto& matrix, uint32_t i) {
    matrix.MSize = 8 << i;
    matrix.NSize = 8;
    matrix.KSize = 16;
  });
  return VK_SUCCESS;
}
VKAPI_ATTR VkResult VKAPI_CALL fake_free_matrices(VkPhysicalDevice, uint32_t* count,
                                                  VkCooperativeMatrixFlexibleDimensionsPropertiesNV* all) {
  fill_matrices<VkCooperativeMatrixFlexibleDimensionsPropertiesNV>(count, all, [](auto& matrix, uint32_t i) {
    matrix.MGranularity = 4 << i;
    matrix.NGranularity = 4;
    matrix.KGranularity = 8;
    matrix.workgroupInvocations = i == 2 ? 128 : 0;
  });
  return VK_SUCCESS;
}
VKAPI_ATTR void VKAPI_CALL fake_anything() {}
VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL fake_lookup(VkInstance, const char*) {
  return fake_anything;
}

std::shared_ptr<Instance> fake_instance(std::vector<FakeDevice> devices,
                                        std::vector<std::string_view> extensions = {
                                            VK_EXT_DEBUG_UTILS_EXTENSION_NAME,
                                            VK_KHR_PORTABILITY_ENUMERATION_EXTENSION_NAME}) {
  fake_devices = std::move(devices);
  matrix_questions = 0;
  known_extensions = std::move(extensions);
  InstanceOptions options;
  VulkanTable& table = options.table;
  table.vkGetInstanceProcAddr = fake_lookup;
  table.vkCreateInstance = fake_create_instance;
  table.vkEnumerateInstanceVersion = fake_version;
  table.vkDestroyInstance = fake_destroy_instance;
  table.vkEnumeratePhysicalDevices = fake_enumerate;
  table.vkGetPhysicalDeviceProperties = fake_properties;
  table.vkGetPhysicalDeviceProperties2 = fake_properties2;
  table.vkGetPhysicalDeviceFeatures2 = fake_features;
  table.vkGetPhysicalDeviceMemoryProperties2 = fake_memory;
  table.vkGetPhysicalDeviceQueueFamilyProperties = fake_queues;
  table.vkEnumerateDeviceExtensionProperties = fake_extensions;
  table.vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR = fake_matrices;
  table.vkGetPhysicalDeviceCooperativeMatrixFlexibleDimensionsPropertiesNV = fake_free_matrices;
  auto instance = Instance::create(options);
  if (!instance.ok()) FAIL(instance.error().text());
  return *instance;
}

constexpr VkPhysicalDeviceType discrete = VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU;
constexpr VkPhysicalDeviceType integrated = VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU;
constexpr VkPhysicalDeviceType cpu = VK_PHYSICAL_DEVICE_TYPE_CPU;
constexpr uint32_t v12 = VK_API_VERSION_1_2, v13 = VK_API_VERSION_1_3;

} // namespace

TEST_CASE("a discrete GPU comes before an integrated one before a CPU") {
  const auto instance = fake_instance({{"Software", cpu, v13, 1, true},
                                       {"Small GPU", integrated, v13, 2, true},
                                       {"Big GPU", discrete, v13, 3, true}});
  CHECK(instance->choose("")->name == "Big GPU");
  CHECK(instance->choose("0")->name == "Software");
  CHECK(instance->choose("small")->name == "Small GPU");
  CHECK(instance->choose("03030303-0303-0303-0303-030303030303")->name == "Big GPU");
  CHECK(says(instance->choose("huge"), {"matches 'huge'", "Small GPU", "does not match"}) == "");
}

TEST_CASE("a device that cannot be used is passed over with its reasons") {
  const auto instance = fake_instance({{"Old GPU", discrete, VK_API_VERSION_1_1, 1, true},
                                       {"Odd GPU", discrete, v13, 2, false},
                                       {"Small GPU", integrated, v13, 3, true}});
  CHECK(instance->choose("")->name == "Small GPU");
  CHECK(says(instance->choose("old"), {"Old GPU", "Vulkan 1.1; 1.2 or newer is needed"}) == "");
  CHECK(says(instance->choose("1"), {"Odd GPU", "timeline semaphores"}) == "");

  const auto cramped = fake_instance({{"Tiny GPU", integrated, v13, 1, true, 0, false, true}});
  CHECK(says(cramped->choose(""),
             {"Tiny GPU", "127 bytes of push constants; 128 are needed",
              "7 storage buffers to a shader; 8 are needed", "16383 bytes of shared memory; 16384 are needed",
              "127 invocations to a workgroup; 128 are needed"}) == "");
}

TEST_CASE("one GPU under two drivers is shown as such") {
  const auto instance = fake_instance({{"GPU (driver A)", discrete, v13, 7, true},
                                       {"GPU (driver B)", discrete, v13, 7, true},
                                       {"Other", discrete, v13, 8, true}});
  CHECK(instance->devices()[0].duplicate_of == -1);
  CHECK(instance->devices()[1].duplicate_of == 0);
  CHECK(instance->devices()[2].duplicate_of == -1);
}

TEST_CASE(
    "who lists devices asks none of them for its cooperative matrices, and of those only f16 with sums in 32 "
    "bits are used") {
  const auto instance = fake_instance({{"Plain", discrete, v13, 1, true},
                                       {"Matrices", discrete, v13, 2, true, nvidia, true},
                                       {"Intel", integrated, v13, 3, true, intel, true},
                                       {"Old", discrete, VK_API_VERSION_1_2, 4, true, nvidia, true}});
  std::vector<Capabilities> devices = instance->devices();
  CHECK(instance->choose("")->cooperative_matrix == false);
  CHECK(instance->choose("1")->cooperative_matrix);
  CHECK(matrix_questions == 0);
  read_matrices(instance->table(), devices[0]);
  CHECK(matrix_questions == 0);
  for (Capabilities& device : devices) read_matrices(instance->table(), device);
  using Tiers = std::vector<std::string>;
  CHECK(devices[0].tiers() == Tiers{"portable"});
  CHECK(devices[0].matrix_sizes.empty());
  CHECK(devices[1].tiers() == Tiers{"portable", "cm", "cm2"});
  REQUIRE(devices[1].matrix_sizes.size() == 1);
  CHECK(devices[1].matrix_sizes[0].m == 16);
  CHECK(devices[1].matrix_sizes[0].n == 8);
  CHECK(devices[1].matrix_sizes[0].k == 16);
  REQUIRE(devices[1].matrix_granularities.size() == 1); // a workgroup's are not offered
  CHECK(devices[1].matrix_granularities[0].m == 8);
  CHECK(devices[1].matrix_granularities[0].workgroup == 0);
  CHECK(devices[1].kernel_subgroup_size() == 32);
  CHECK(devices[2].kernel_subgroup_size() == 8);
  CHECK(devices[3].tiers() == Tiers{"portable"}); // subgroups of no certain size
}

TEST_CASE("kernels have a subgroup size where one can be relied on") {
  const auto size = [](const FakeDevice& device) {
    return fake_instance({device})->devices()[0].kernel_subgroup_size();
  };
  // {name, type, version, UUID, timeline, vendor, matrices, cramped, least, greatest, sized, size_extension}
  // Where all subgroups have one size, nothing needs to be asked for, and drivers do not let kernels ask.
  CHECK(size({"Turing, NVK", discrete, v13, 1, true, nvidia, false, false, 32, 32, false}) == 32);
  CHECK(size({"Vega", discrete, v13, 1, true, amd, false, false, 64, 64, false}) == 64);
  CHECK(size({"RDNA", discrete, v13, 1, true, amd, false, false, 32, 64, true}) == 64);
  CHECK(size({"Several", discrete, v13, 1, true, amd, false, false, 32, 64, false}) == 0);
  // Vulkan 1.2 knows sizes by an extension.
  CHECK(size({"Old", discrete, v12, 1, true, amd, false, false, 64, 64, false}) == 0);
  CHECK(size({"Old Vega", discrete, v12, 1, true, amd, false, false, 64, 64, false, true}) == 64);
  CHECK(size({"Old RDNA", discrete, v12, 1, true, amd, false, false, 32, 64, true, true}) == 64);
  CHECK(size({"Xe", integrated, v13, 1, true, intel, false, false, 8, 32, true}) == 8);
  CHECK(size({"Adreno", integrated, v13, 1, true, qualcomm, false, false, 64, 128, true}) == 64);

  const auto fast = [](uint32_t vendor) {
    return fake_instance({{"GPU", discrete, v13, 1, true, vendor}})->devices()[0].integer_dot_product_fast;
  };
  CHECK(fast(amd));
  CHECK(!fast(intel));
}

TEST_CASE("a device's cores are those that its driver counts") {
  const auto cores = [](const char* extension) {
    FakeDevice device = {"GPU", discrete, v13, 1, true};
    device.core_extension = extension;
    return fake_instance({device})->devices()[0].cores;
  };
  CHECK(cores(VK_NV_SHADER_SM_BUILTINS_EXTENSION_NAME) == 132);
  CHECK(cores(VK_AMD_SHADER_CORE_PROPERTIES_EXTENSION_NAME) == 96);
  CHECK(cores(VK_AMD_SHADER_CORE_PROPERTIES_2_EXTENSION_NAME) == 84); // without those that are switched off
  CHECK(cores(VK_ARM_SHADER_CORE_BUILTINS_EXTENSION_NAME) == 10);
  CHECK(cores(nullptr) == 0);
}

TEST_CASE("a queue that only computes comes before one that draws") {
  FakeDevice gpu{"GPU", discrete, v13, 1, true};
  constexpr VkQueueFlags all = VK_QUEUE_GRAPHICS_BIT | VK_QUEUE_COMPUTE_BIT | VK_QUEUE_TRANSFER_BIT;
  gpu.families = {{all, 16, 64, {}}, {VK_QUEUE_TRANSFER_BIT, 2, 64, {}}, {VK_QUEUE_COMPUTE_BIT, 8, 36, {}}};
  CHECK(fake_instance({gpu})->devices()[0].compute_queue_family == 2);
  CHECK(fake_instance({gpu})->devices()[0].timestamp_bits == 36);
  CHECK(fake_instance({gpu})->devices()[0].copy_queue_family == 1);
  gpu.families[2].queueCount = 0;
  CHECK(fake_instance({gpu})->devices()[0].compute_queue_family == 0);
  gpu.families[1].queueFlags |= VK_QUEUE_VIDEO_DECODE_BIT_KHR;
  CHECK(fake_instance({gpu})->devices()[0].copy_queue_family == -1);
  gpu.families = {{VK_QUEUE_TRANSFER_BIT, 2, 64, {}}};
  CHECK(says(fake_instance({gpu})->choose(""), {"no queue that runs compute shaders"}) == "");
}

TEST_CASE("only integrated GPUs and CPUs share the host's memory") {
  const auto shares = [](VkPhysicalDeviceType type) {
    return fake_instance({{"Device", type, v13, 1, true}})->devices()[0].unified_memory;
  };
  CHECK(shares(integrated));
  CHECK(shares(cpu));
  CHECK_FALSE(shares(discrete));
  CHECK_FALSE(shares(VK_PHYSICAL_DEVICE_TYPE_VIRTUAL_GPU));
}

TEST_CASE("devices on top of another interface are listed, and made with what they need") {
  FakeDevice molten{"MoltenVK", integrated, v13, 1, true};
  molten.portability_subset = true;
  const std::string_view names = VK_EXT_DEBUG_UTILS_EXTENSION_NAME;
  auto instance = fake_instance({molten});
  CHECK(instance_extensions == 2);
  CHECK((instance_flags & VK_INSTANCE_CREATE_ENUMERATE_PORTABILITY_BIT_KHR) != 0);
  const DeviceFeatures features(instance->devices()[0]);
  CHECK(std::ranges::any_of(features.extensions(), [](const char* name) {
    return std::string_view(name) == portability_subset_extension;
  }));
  // Older loaders.
  (void)fake_instance({molten}, {names});
  CHECK(instance_extensions == 1);
  CHECK(instance_flags == 0);
  (void)fake_instance({molten}, {});
  CHECK(instance_extensions == 0);
}

TEST_CASE("no device and no loader are errors that say what is missing") {
  CHECK(says(fake_instance({})->choose(""), {"no usable Vulkan device", "no driver"}) == "");
  CHECK(says(open_vulkan_loader("/nonexistent/libvulkan.so"), {"no Vulkan loader", "/nonexistent"}) == "");
}
