#include "gpu/capabilities.h"

#include <algorithm>
#include <cstring>
#include <set>
#include <span>

#include <fmt/format.h>

#include "gpu/buffer_usage.h"
#include "gpu/known_drivers.h"

namespace pumice {

namespace {

std::set<std::string> extension_names(const VulkanTable& vk, VkPhysicalDevice handle) {
  uint32_t count = 0;
  if (vk.vkEnumerateDeviceExtensionProperties(handle, nullptr, &count, nullptr) != VK_SUCCESS) return {};
  std::vector<VkExtensionProperties> extensions(count);
  if (vk.vkEnumerateDeviceExtensionProperties(handle, nullptr, &count, extensions.data()) < 0) return {};
  extensions.resize(count);
  std::set<std::string> names;
  for (const VkExtensionProperties& extension : extensions) names.insert(extension.extensionName);
  return names;
}

// Appends structures to a chain, if the device knows them: others may not be in it.
class Chain {
public:
  Chain(const Capabilities& device, const std::set<std::string>& extensions, void** end)
      : is_13_(device.api_version >= VK_API_VERSION_1_3), extensions_(extensions), end_(end) {}

  template <class Structure>
  void add_extension(Structure& structure, const char* extension) {
    if (extensions_.count(extension)) add(structure);
  }
  // One that is a part of Vulkan 1.3 as well.
  template <class Structure>
  void add_13(Structure& structure, const char* extension) {
    if (is_13_ || extensions_.count(extension)) add(structure);
  }

private:
  template <class Structure>
  void add(Structure& structure) {
    *end_ = &structure;
    end_ = &structure.pNext;
  }
  bool is_13_;
  const std::set<std::string>& extensions_;
  void** end_;
};

// By which the table of known drivers knows it.
void read_driver(const VulkanTable& vk, Capabilities& device) {
  VkPhysicalDeviceDriverProperties driver{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_DRIVER_PROPERTIES};
  VkPhysicalDeviceProperties2 properties{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2, &driver};
  vk.vkGetPhysicalDeviceProperties2(device.handle, &properties);
  device.driver = driver.driverName;
  device.driver_id = driver.driverID;
  device.driver_version = driver.driverInfo;
}

void read_properties(const VulkanTable& vk, const std::set<std::string>& extensions, Capabilities& device) {
  VkPhysicalDeviceSubgroupSizeControlProperties control{
      VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_PROPERTIES};
  VkPhysicalDeviceShaderIntegerDotProductProperties dot{
      VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_INTEGER_DOT_PRODUCT_PROPERTIES};
  VkPhysicalDeviceExternalMemoryHostPropertiesEXT host{
      VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_EXTERNAL_MEMORY_HOST_PROPERTIES_EXT};
  // Not those of whole versions: a program's instance may be of Vulkan 1.1.
  VkPhysicalDeviceIDProperties ids{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_ID_PROPERTIES};
  VkPhysicalDeviceMaintenance3Properties allocations{
      VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_3_PROPERTIES, &ids};
  VkPhysicalDeviceSubgroupProperties subgroups{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_PROPERTIES,
                                               &allocations};
  VkPhysicalDeviceProperties2 properties{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2, &subgroups};
  Chain chain(device, extensions, &ids.pNext);
  chain.add_13(control, VK_EXT_SUBGROUP_SIZE_CONTROL_EXTENSION_NAME);
  chain.add_13(dot, VK_KHR_SHADER_INTEGER_DOT_PRODUCT_EXTENSION_NAME);
  chain.add_extension(host, VK_EXT_EXTERNAL_MEMORY_HOST_EXTENSION_NAME);
  VkPhysicalDeviceShaderSMBuiltinsPropertiesNV nvidia{
      VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_SM_BUILTINS_PROPERTIES_NV};
  VkPhysicalDeviceShaderCorePropertiesAMD amd{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_CORE_PROPERTIES_AMD};
  VkPhysicalDeviceShaderCoreProperties2AMD amd_active{
      VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_CORE_PROPERTIES_2_AMD};
  VkPhysicalDeviceShaderCoreBuiltinsPropertiesARM arm{
      VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_CORE_BUILTINS_PROPERTIES_ARM};
  chain.add_extension(nvidia, VK_NV_SHADER_SM_BUILTINS_EXTENSION_NAME);
  chain.add_extension(amd, VK_AMD_SHADER_CORE_PROPERTIES_EXTENSION_NAME);
  chain.add_extension(amd_active, VK_AMD_SHADER_CORE_PROPERTIES_2_EXTENSION_NAME);
  chain.add_extension(arm, VK_ARM_SHADER_CORE_BUILTINS_EXTENSION_NAME);
  vk.vkGetPhysicalDeviceProperties2(device.handle, &properties);

  const VkPhysicalDeviceLimits& limits = properties.properties.limits;
  std::copy_n(ids.deviceUUID, VK_UUID_SIZE, device.uuid.begin());
  std::copy_n(ids.driverUUID, VK_UUID_SIZE, device.driver_uuid.begin());
  device.max_allocation_bytes = allocations.maxMemoryAllocationSize;
  device.max_shared_bytes = limits.maxComputeSharedMemorySize;
  device.max_storage_buffers =
      std::min(limits.maxPerStageDescriptorStorageBuffers, limits.maxDescriptorSetStorageBuffers);
  device.max_storage_range_bytes = limits.maxStorageBufferRange;
  device.storage_offset_alignment = limits.minStorageBufferOffsetAlignment;
  device.max_texels = limits.maxTexelBufferElements;
  device.max_push_constant_bytes = limits.maxPushConstantsSize;
  device.max_workgroup_invocations = limits.maxComputeWorkGroupInvocations;
  // AMD's chips have units that are switched off: their number on paper counts some of them.
  const uint32_t amd_cores =
      amd_active.activeComputeUnitCount > 0
          ? amd_active.activeComputeUnitCount
          : amd.shaderEngineCount * amd.shaderArraysPerEngineCount * amd.computeUnitsPerShaderArray;
  device.cores = nvidia.shaderSMCount + arm.shaderCoreCount + amd_cores;
  std::copy_n(limits.maxComputeWorkGroupCount, 3, device.max_workgroups.begin());
  device.timestamp_period_ns = limits.timestampPeriod;
  device.host_memory_alignment = host.minImportedHostPointerAlignment;
  device.subgroup_size = subgroups.subgroupSize;
  device.min_subgroup_size = control.minSubgroupSize;
  device.max_subgroup_size = control.maxSubgroupSize;
  device.subgroup_size_control = control.requiredSubgroupSizeStages & VK_SHADER_STAGE_COMPUTE_BIT;
  device.integer_dot_product_fast = dot.integerDotProduct4x8BitPackedSignedAccelerated;
  const bool in_compute = subgroups.supportedStages & VK_SHADER_STAGE_COMPUTE_BIT;
  device.subgroup_ballot = in_compute && (subgroups.supportedOperations & VK_SUBGROUP_FEATURE_BALLOT_BIT);
  device.subgroup_shuffle = in_compute && (subgroups.supportedOperations & VK_SUBGROUP_FEATURE_SHUFFLE_BIT);
}

void read_features(const VulkanTable& vk, const std::set<std::string>& extensions, Capabilities& device) {
  VkPhysicalDeviceTimelineSemaphoreFeatures timeline{
      VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_TIMELINE_SEMAPHORE_FEATURES};
  VkPhysicalDeviceBufferDeviceAddressFeatures address{
      VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_BUFFER_DEVICE_ADDRESS_FEATURES, &timeline};
  VkPhysicalDevice8BitStorageFeatures storage_8bit{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_8BIT_STORAGE_FEATURES,
                                                   &address};
  VkPhysicalDevice16BitStorageFeatures storage_16bit{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_16BIT_STORAGE_FEATURES,
                                                     &storage_8bit};
  VkPhysicalDeviceVulkanMemoryModelFeatures model{
      VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_MEMORY_MODEL_FEATURES, &storage_16bit};
  VkPhysicalDeviceShaderFloat16Int8Features small{
      VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_FLOAT16_INT8_FEATURES, &model};
  VkPhysicalDeviceFeatures2 features{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2, &small};
  Chain chain(device, extensions, &timeline.pNext);
  VkPhysicalDeviceShaderIntegerDotProductFeatures dot{
      VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_INTEGER_DOT_PRODUCT_FEATURES};
  chain.add_13(dot, VK_KHR_SHADER_INTEGER_DOT_PRODUCT_EXTENSION_NAME);
  VkPhysicalDeviceSubgroupSizeControlFeatures control{
      VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_SIZE_CONTROL_FEATURES};
  chain.add_13(control, VK_EXT_SUBGROUP_SIZE_CONTROL_EXTENSION_NAME);
  VkPhysicalDeviceCooperativeMatrixFeaturesKHR matrix{
      VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_COOPERATIVE_MATRIX_FEATURES_KHR};
  chain.add_extension(matrix, VK_KHR_COOPERATIVE_MATRIX_EXTENSION_NAME);
  VkPhysicalDeviceCooperativeMatrix2FeaturesNV matrix2{
      VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_COOPERATIVE_MATRIX_2_FEATURES_NV};
  chain.add_extension(matrix2, VK_NV_COOPERATIVE_MATRIX_2_EXTENSION_NAME);
  vk.vkGetPhysicalDeviceFeatures2(device.handle, &features);

  device.buffer_device_address = address.bufferDeviceAddress;
  device.timeline_semaphore = timeline.timelineSemaphore;
  device.storage_16bit = storage_16bit.storageBuffer16BitAccess;
  device.storage_8bit = storage_8bit.storageBuffer8BitAccess;
  device.float16 = small.shaderFloat16;
  device.int8 = small.shaderInt8;
  device.integer_dot_product =
      dot.shaderIntegerDotProduct && extensions.count(VK_KHR_SHADER_INTEGER_DOT_PRODUCT_EXTENSION_NAME);
  device.full_subgroups = control.subgroupSizeControl && control.computeFullSubgroups;
  device.subgroup_size_control = device.subgroup_size_control && device.full_subgroups;
  device.subgroup_size_control_extension = extensions.count(VK_EXT_SUBGROUP_SIZE_CONTROL_EXTENSION_NAME);
  device.memory_model = model.vulkanMemoryModel && model.vulkanMemoryModelDeviceScope;
  device.cooperative_matrix = matrix.cooperativeMatrix;
  device.cooperative_matrix2 = matrix.cooperativeMatrix && matrix2.cooperativeMatrixFlexibleDimensions;
  device.workgroup_matrices = device.cooperative_matrix2 && matrix2.cooperativeMatrixWorkgroupScope;
  for (const char* name :
       {VK_KHR_TIMELINE_SEMAPHORE_EXTENSION_NAME, VK_KHR_BUFFER_DEVICE_ADDRESS_EXTENSION_NAME,
        VK_KHR_SHADER_FLOAT16_INT8_EXTENSION_NAME, VK_KHR_VULKAN_MEMORY_MODEL_EXTENSION_NAME,
        VK_KHR_SHADER_FLOAT_CONTROLS_EXTENSION_NAME, VK_KHR_SPIRV_1_4_EXTENSION_NAME}) {
    if (extensions.count(name)) device.promoted.push_back(name);
  }
  device.portability_subset = extensions.count(portability_subset_extension);
  device.memory_budget = extensions.count(VK_EXT_MEMORY_BUDGET_EXTENSION_NAME);
  for (const char* name : {VK_EXT_GLOBAL_PRIORITY_EXTENSION_NAME, VK_KHR_GLOBAL_PRIORITY_EXTENSION_NAME}) {
    if (extensions.count(name)) device.global_priority_extension = name;
  }
}

// Whether a property describes products of 16-bit floats with sums in 32 bits. Both kinds of properties have
// the same fields for it.
template <class Properties>
bool halves_to_floats(const Properties& matrix) {
  return matrix.AType == VK_COMPONENT_TYPE_FLOAT16_KHR && matrix.BType == VK_COMPONENT_TYPE_FLOAT16_KHR &&
         matrix.CType == VK_COMPONENT_TYPE_FLOAT32_KHR &&
         matrix.ResultType == VK_COMPONENT_TYPE_FLOAT32_KHR && !matrix.saturatingAccumulation;
}

// All results of a query of a device's cooperative matrices; empty if the query fails.
template <class Properties, class Query>
std::vector<Properties> matrix_properties(Query query, VkPhysicalDevice handle, VkStructureType type) {
  uint32_t count = 0;
  if (!query || query(handle, &count, nullptr) != VK_SUCCESS) return {};
  std::vector<Properties> all(count, Properties{type});
  if (query(handle, &count, all.data()) < 0) return {};
  all.resize(std::min<size_t>(count, all.size()));
  return all;
}

// What the table of known drivers says of subgroups, whatever the device does.
void correct_subgroups(std::span<const KnownDriver> faults, Capabilities& device) {
  for (const KnownDriver& fault : faults) {
    if (fault.no_exchanges) device.subgroup_shuffle = false;
    if (fault.subgroup_size == 0) continue;
    device.subgroup_size = device.min_subgroup_size = device.max_subgroup_size = fault.subgroup_size;
    device.subgroup_size_control = false;
  }
}

void read_memory(const VulkanTable& vk, Capabilities& device) {
  VkPhysicalDeviceMemoryProperties2 memory{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_PROPERTIES_2};
  vk.vkGetPhysicalDeviceMemoryProperties2(device.handle, &memory);
  const VkPhysicalDeviceMemoryProperties& properties = memory.memoryProperties;
  for (uint32_t i = 0; i < properties.memoryHeapCount; ++i) {
    if (!(properties.memoryHeaps[i].flags & VK_MEMORY_HEAP_DEVICE_LOCAL_BIT)) continue;
    device.memory_bytes = std::max<uint64_t>(device.memory_bytes, properties.memoryHeaps[i].size);
  }
  constexpr VkMemoryPropertyFlags mappable =
      VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
  // A virtual GPU may be a discrete one.
  device.unified_memory = device.type == VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU || device.is_cpu();
  bool mappable_local = false;
  for (uint32_t i = 0; i < properties.memoryTypeCount; ++i) {
    const VkMemoryPropertyFlags flags = properties.memoryTypes[i].propertyFlags;
    mappable_local |= (flags & VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT) && (flags & mappable) == mappable;
  }
  device.unified_memory = device.unified_memory && mappable_local;
}

// A family of queues that have all of `wanted` and none of `avoided`; -1 if there is none.
int find_family(const std::vector<VkQueueFamilyProperties>& families, VkQueueFlags wanted,
                VkQueueFlags avoided) {
  for (size_t i = 0; i < families.size(); ++i) {
    const VkQueueFlags flags = families[i].queueFlags;
    if (families[i].queueCount && (flags & wanted) == wanted && !(flags & avoided))
      return static_cast<int>(i);
  }
  return -1;
}

// Whether a storage buffer can have memory of the host, without being the only one in it.
void read_host_import(const VulkanTable& vk, const std::set<std::string>& extensions, Capabilities& device) {
  if (!extensions.count(VK_EXT_EXTERNAL_MEMORY_HOST_EXTENSION_NAME) || device.host_memory_alignment == 0 ||
      !vk.vkGetPhysicalDeviceExternalBufferProperties) {
    return;
  }
  VkPhysicalDeviceExternalBufferInfo info{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_EXTERNAL_BUFFER_INFO};
  info.usage = buffer_usage(device);
  info.handleType = VK_EXTERNAL_MEMORY_HANDLE_TYPE_HOST_ALLOCATION_BIT_EXT;
  VkExternalBufferProperties found{VK_STRUCTURE_TYPE_EXTERNAL_BUFFER_PROPERTIES};
  vk.vkGetPhysicalDeviceExternalBufferProperties(device.handle, &info, &found);
  const VkExternalMemoryFeatureFlags features = found.externalMemoryProperties.externalMemoryFeatures;
  device.host_memory_import = (features & VK_EXTERNAL_MEMORY_FEATURE_IMPORTABLE_BIT) &&
                              !(features & VK_EXTERNAL_MEMORY_FEATURE_DEDICATED_ONLY_BIT);
}

void read_queues(const VulkanTable& vk, Capabilities& device) {
  uint32_t count = 0;
  vk.vkGetPhysicalDeviceQueueFamilyProperties(device.handle, &count, nullptr);
  std::vector<VkQueueFamilyProperties> families(count);
  vk.vkGetPhysicalDeviceQueueFamilyProperties(device.handle, &count, families.data());
  // Queues without graphics run beside those that draw, of this program and others.
  int compute = find_family(families, VK_QUEUE_COMPUTE_BIT, VK_QUEUE_GRAPHICS_BIT);
  if (compute < 0) compute = find_family(families, VK_QUEUE_COMPUTE_BIT, 0);
  if (compute < 0) return;
  device.use_queue_family(static_cast<uint32_t>(compute), families[compute]);
  // Queues that decode (0x20) or encode (0x40) video copy as well, more slowly. Older headers lack the names.
  constexpr VkQueueFlags other_work = VK_QUEUE_GRAPHICS_BIT | VK_QUEUE_COMPUTE_BIT | 0x20 | 0x40;
  if (!device.unified_memory) {
    device.copy_queue_family = find_family(families, VK_QUEUE_TRANSFER_BIT, other_work);
  }
}

void find_problems(Capabilities& device) {
  auto need = [&](bool present, std::string what) {
    if (!present) device.problems.push_back(std::move(what));
  };
  need(device.compute_queue_family >= 0, "no queue that runs compute shaders");
  need(device.timeline_semaphore, "no timeline semaphores (timelineSemaphore)");
  const auto need_at_least = [&](uint32_t least, uint32_t has, const char* what) {
    need(has >= least, fmt::format("{} {}; {} are needed", has, what, least));
  };
  need_at_least(128, device.max_push_constant_bytes, "bytes of push constants");
  need_at_least(portable_storage_buffers, device.max_storage_buffers, "storage buffers to a shader");
  need_at_least(16384, device.max_shared_bytes, "bytes of shared memory");
  need_at_least(128, device.max_workgroup_invocations, "invocations to a workgroup");
}

} // namespace

Capabilities read_capabilities(const VulkanTable& vk, VkPhysicalDevice handle, uint32_t index) {
  Capabilities device;
  device.index = index;
  device.handle = handle;

  VkPhysicalDeviceProperties properties;
  vk.vkGetPhysicalDeviceProperties(handle, &properties);
  device.name = properties.deviceName;
  device.vendor_id = properties.vendorID;
  device.device_id = properties.deviceID;
  device.driver_build = properties.driverVersion;
  device.api_version = properties.apiVersion;
  device.type = properties.deviceType;
  std::copy_n(properties.pipelineCacheUUID, VK_UUID_SIZE, device.pipeline_cache_uuid.begin());
  if (properties.apiVersion < VK_API_VERSION_1_2) {
    device.problems.push_back(fmt::format("Vulkan {}.{}; 1.2 or newer is needed",
                                          VK_API_VERSION_MAJOR(properties.apiVersion),
                                          VK_API_VERSION_MINOR(properties.apiVersion)));
    return device; // older versions lack the property structures that follow
  }
  read_driver(vk, device);
  const std::vector<KnownDriver> faults = known_faults(device);
  std::set<std::string> extensions = extension_names(vk, handle);
  for (const KnownDriver& fault : faults) {
    for (const char* extension : fault.without) {
      if (extension) extensions.erase(extension); // nothing of it is asked
    }
  }
  read_properties(vk, extensions, device);
  correct_subgroups(faults, device);
  read_features(vk, extensions, device);
  read_memory(vk, device);
  read_host_import(vk, extensions, device);
  read_queues(vk, device);
  find_problems(device);
  return device;
}

void read_matrices(const VulkanTable& vk, Capabilities& device) {
  if (device.cooperative_matrix) {
    for (const auto& matrix : matrix_properties<VkCooperativeMatrixPropertiesKHR>(
             vk.vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR, device.handle,
             VK_STRUCTURE_TYPE_COOPERATIVE_MATRIX_PROPERTIES_KHR)) {
      if (!halves_to_floats(matrix) || matrix.scope != VK_SCOPE_SUBGROUP_KHR) continue;
      device.matrix_sizes.push_back({matrix.MSize, matrix.NSize, matrix.KSize});
    }
  }
  if (device.cooperative_matrix2) {
    for (const auto& matrix : matrix_properties<VkCooperativeMatrixFlexibleDimensionsPropertiesNV>(
             vk.vkGetPhysicalDeviceCooperativeMatrixFlexibleDimensionsPropertiesNV, device.handle,
             VK_STRUCTURE_TYPE_COOPERATIVE_MATRIX_FLEXIBLE_DIMENSIONS_PROPERTIES_NV)) {
      const bool workgroup = matrix.scope == VK_SCOPE_WORKGROUP_KHR && device.workgroup_matrices;
      if (!halves_to_floats(matrix) || !(workgroup || matrix.scope == VK_SCOPE_SUBGROUP_KHR)) continue;
      device.matrix_granularities.push_back({{matrix.MGranularity, matrix.NGranularity, matrix.KGranularity},
                                             workgroup ? matrix.workgroupInvocations : 0});
    }
    VkPhysicalDeviceCooperativeMatrix2PropertiesNV matrix2{
        VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_COOPERATIVE_MATRIX_2_PROPERTIES_NV};
    VkPhysicalDeviceProperties2 properties{VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2, &matrix2};
    vk.vkGetPhysicalDeviceProperties2(device.handle, &properties);
    device.matrix_reserved_bytes = matrix2.cooperativeMatrixWorkgroupScopeReservedSharedMemory;
  }
}

std::string Capabilities::uuid_text() const {
  std::string text;
  for (size_t i = 0; i < uuid.size(); ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += fmt::format("{:02x}", uuid[i]);
  }
  return text;
}

const char* Capabilities::type_name() const {
  switch (type) {
  case VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU:
    return "discrete GPU";
  case VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU:
    return "integrated GPU";
  case VK_PHYSICAL_DEVICE_TYPE_VIRTUAL_GPU:
    return "virtual GPU";
  case VK_PHYSICAL_DEVICE_TYPE_CPU:
    return "CPU";
  default:
    return "other";
  }
}

void Capabilities::use_queue_family(uint32_t number, const VkQueueFamilyProperties& family) {
  compute_queue_family = static_cast<int>(number);
  timestamp_bits = family.timestampValidBits;
  timestamps = timestamp_bits > 0 && timestamp_period_ns > 0;
}

// Kernels of the tier cpu8 treat a subgroup as one 8-lane vector of a CPU. Only drivers that compile shaders
// to such vectors can run them well.
bool Capabilities::uses_addresses() const {
  return is_cpu() && subgroup_size == 8 && subgroup_ballot && subgroup_shuffle && buffer_device_address &&
         max_storage_buffers >= most_storage_buffers && spirv_1_5;
}

uint32_t Capabilities::kernel_subgroup_size() const {
  if (min_subgroup_size == max_subgroup_size) return min_subgroup_size;
  if (!subgroup_size_control) return 0;
  // On Intel devices matrices need the smallest size. On Adreno, registers last for half as many invocations.
  return vendor_id == vendor::intel || vendor_id == vendor::qualcomm ? min_subgroup_size : subgroup_size;
}

std::vector<std::string> Capabilities::tiers() const {
  std::vector<std::string> tiers = {"portable"};
  if (uses_addresses()) tiers.push_back("cpu8");
  if (uses_addresses() && float16 && storage_16bit) tiers.push_back("half8");
  if (multiplies_matrices() && !matrix_sizes.empty()) tiers.push_back("cm");
  if (multiplies_matrices() && !matrix_granularities.empty()) tiers.push_back("cm2");
  return tiers;
}

// They load f16 matrices from shared memory. All devices with cooperative matrices have at least 32 KiB of
// it.
bool Capabilities::multiplies_matrices() const {
  return cooperative_matrix && float16 && memory_model && max_shared_bytes >= 32768 &&
         kernel_subgroup_size() > 0;
}

} // namespace pumice
