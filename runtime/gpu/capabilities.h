#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "gpu/matrix_shape.h"
#include "gpu/vulkan_table.h"

namespace pumice {

// Freely chosen sizes of cooperative matrices: any multiples of these.
struct MatrixGranularity : MatrixShape {
  // Invocations of a workgroup that multiplies such a matrix together; 0: a subgroup multiplies it.
  uint32_t workgroup = 0;
};

// VK_KHR_portability_subset, which headers without provisional parts do not name. A device that has it must
// be made with it.
inline constexpr const char* portability_subset_extension = "VK_KHR_portability_subset";

// The storage buffers of one kernel: of a kernel for any device, and of one of the tier cpu8. Mesa's driver
// for the Raspberry Pi has 8.
inline constexpr uint32_t portable_storage_buffers = 8, most_storage_buffers = 12;

// Values of Capabilities::vendor_id.
namespace vendor {
inline constexpr uint32_t amd = 0x1002, intel = 0x8086, nvidia = 0x10de, qualcomm = 0x5143;
}

// The properties and features of one physical device. Nothing here depends on a model.
struct Capabilities {
  uint32_t index = 0; // position in the instance's list of devices
  VkPhysicalDevice handle = VK_NULL_HANDLE;

  std::string name;           // "NVIDIA GeForce RTX 4090"
  std::string driver;         // "llvmpipe"
  std::string driver_version; // "Mesa 22.3.6 (LLVM 15.0.6)"
  std::array<uint8_t, VK_UUID_SIZE> uuid = {};
  std::array<uint8_t, VK_UUID_SIZE> driver_uuid = {};
  std::array<uint8_t, VK_UUID_SIZE> pipeline_cache_uuid = {};
  uint32_t vendor_id = 0;
  uint32_t device_id = 0;
  uint32_t driver_build = 0; // the vendor's own encoding
  VkDriverId driver_id = VK_DRIVER_ID_MAX_ENUM;
  uint32_t api_version = 0;
  VkPhysicalDeviceType type = VK_PHYSICAL_DEVICE_TYPE_OTHER;

  uint64_t memory_bytes = 0;            // the largest device-local heap
  uint64_t max_allocation_bytes = 0;    // largest size of one allocation or buffer
  uint64_t max_storage_range_bytes = 0; // largest range of one storage buffer binding
  uint64_t storage_offset_alignment = 1;
  uint32_t max_texels = 0;          // of one texel buffer
  uint32_t max_storage_buffers = 0; // storage buffer bindings of one kernel
  uint32_t max_shared_bytes = 0;    // of one workgroup
  uint32_t max_push_constant_bytes = 0;
  uint32_t max_workgroup_invocations = 0;
  uint32_t cores = 0; // that take workgroups: multiprocessors, compute units; 0: the driver does not say
  std::array<uint32_t, 3> max_workgroups = {};
  uint32_t subgroup_size = 0;
  uint32_t min_subgroup_size = 0; // equal to max_subgroup_size if all subgroups have one size
  uint32_t max_subgroup_size = 0;
  bool full_subgroups = false;                  // a kernel can ask for full subgroups
  bool subgroup_size_control = false;           // and for one of the sizes
  bool subgroup_size_control_extension = false; // which an instance for Vulkan 1.2 needs for both
  bool spirv_1_5 = true;                        // not with an application's instance for Vulkan 1.1
  std::vector<const char*> promoted;            // extensions that one for Vulkan 1.1 needs for what 1.2 has
  bool subgroup_ballot = false;                 // broadcast
  bool subgroup_shuffle = false;                // shuffle
  bool unified_memory = false;                  // the device's memory is the host's, and can be mapped
  int compute_queue_family = -1;
  int copy_queue_family = -1; // of a queue that copies beside the other one; -1: none, or nothing to copy
  bool timestamps = false;
  uint32_t timestamp_bits = 0; // valid bits of a timestamp; then it begins again at 0
  double timestamp_period_ns = 0;

  bool buffer_device_address = false;
  bool timeline_semaphore = false;
  bool storage_16bit = false;
  bool storage_8bit = false;
  bool float16 = false;
  bool int8 = false;
  bool integer_dot_product = false;      // of packed 4×8 bits
  bool integer_dot_product_fast = false; // by an instruction of its own
  bool memory_model = false;             // Vulkan's with device scope, which cooperative matrices need
  bool cooperative_matrix = false;
  bool cooperative_matrix2 = false;                    // sizes chosen freely
  std::vector<MatrixShape> matrix_sizes;               // sizes of cooperative_matrix, by read_matrices()
  std::vector<MatrixGranularity> matrix_granularities; // sizes of cooperative_matrix2, likewise
  bool workgroup_matrices = false;                     // some of them are for a whole workgroup
  uint32_t matrix_reserved_bytes = 0; // shared memory that is lost where a workgroup multiplies a matrix
  bool memory_budget = false;
  bool host_memory_import = false;       // the host's memory can be a buffer (VK_EXT_external_memory_host)
  uint64_t host_memory_alignment = 0;    // of such memory, and of its size
  bool portability_subset = false;       // Vulkan on top of another interface, with some parts left out
  std::string global_priority_extension; // the extension for GlobalPriority; empty without one

  std::vector<std::string> problems; // why the runtime cannot use it; empty if it can
  int duplicate_of = -1;             // index of the same GPU under another driver, listed earlier

  bool usable() const { return problems.empty(); }
  bool is_cpu() const { return type == VK_PHYSICAL_DEVICE_TYPE_CPU; }
  std::string uuid_text() const; // 32 hexadecimal digits in the usual groups
  const char* type_name() const; // "discrete GPU", "CPU", ...
  void use_queue_family(uint32_t number, const VkQueueFamilyProperties& family);
  // The subgroup size of all kernels that use subgroups; Pipelines requests it where there are several. 0 if
  // no size can be relied on.
  uint32_t kernel_subgroup_size() const;

  // Whether kernels use buffer addresses, and buffers as texels. They take registers and checks from drivers,
  // so nothing else does.
  bool uses_addresses() const;

  // Whether kernels with cooperative matrices can run, where there are sizes for them.
  bool multiplies_matrices() const;
  // Kernel tiers this device can run, best last. "portable" is always first; see runtime/gpu/kernel_table.h.
  std::vector<std::string> tiers() const;
};

// What any driver can be asked: devices are listed with it. What the table of known drivers (known_drivers.h)
// says of this one comes first.
Capabilities read_capabilities(const VulkanTable& vk, VkPhysicalDevice handle, uint32_t index);
// Asks for the sizes of cooperative matrices, where the device has any. There is a driver that ends the
// process at this question: only a device that is used is asked.
void read_matrices(const VulkanTable& vk, Capabilities& device);

} // namespace pumice
