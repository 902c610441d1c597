// The table of known drivers: who is in it, and what is done before such a device is asked.
#include "gpu/known_drivers.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <map>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "kernel/choices.h"
#include "kernel/probe/open_device.h"
#include "support/files/temporary_folder.h"
#include "support/require.h"
#include "support/vulkan/limited_vulkan.h"

using namespace pumice;

namespace {

// A device that has everything which the table takes away from some.
ReportedDevice capable_device() {
  ReportedDevice device = reported_device("NVIDIA GeForce RTX 5080");
  device.subgroups = {64, 32, 64, true, 32, device.subgroups.operations};
  device.extensions.push_back(VK_EXT_EXTERNAL_MEMORY_HOST_EXTENSION_NAME);
  return device;
}

// One with the fault.
ReportedDevice faulty_device(const KnownDriver& fault) {
  ReportedDevice device = capable_device();
  device.name = fmt::format("Some {} GPU", fault.name);
  device.type = VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU;
  if (fault.vendor) device.vendor = fault.vendor;
  device.chip = fault.chips[0];
  device.driver = fault.driver;
  device.driver_build = fault.first;
  device.driver_info = fmt::format("{}1 (some build)", fault.info);
  return device;
}

bool has_extension(const ReportedDevice& device, const char* name) {
  return std::ranges::any_of(device.extensions, [&](const auto& each) { return std::string(each) == name; });
}

bool takes_away(const std::vector<KnownDriver>& faults, const char* extension) {
  return std::ranges::any_of(faults, [&](const KnownDriver& fault) {
    return std::ranges::any_of(fault.without,
                               [&](const char* each) { return each && std::string(each) == extension; });
  });
}

// Puts a function in the place of another one, which is kept.
template <class Function>
void replace(const InstanceOptions& options, Function& entry, Function& kept, const char* name,
             Function own) {
  kept = reinterpret_cast<Function>(options.table.vkGetInstanceProcAddr(VK_NULL_HANDLE, name));
  entry = own;
}

// How often drivers were asked for the sizes of their matrices.
int questions = 0;
PFN_vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR get_matrices = nullptr;
VKAPI_ATTR VkResult VKAPI_CALL count_questions(VkPhysicalDevice device, uint32_t* count,
                                               VkCooperativeMatrixPropertiesKHR* all) {
  ++questions;
  return get_matrices(device, count, all);
}
// The structures in which they were asked for properties and features.
std::set<VkStructureType> structures;
void remember(const void* chain) {
  for (auto* each = static_cast<const VkBaseOutStructure*>(chain); each; each = each->pNext)
    structures.insert(each->sType);
}
PFN_vkGetPhysicalDeviceProperties2 get_properties = nullptr;
VKAPI_ATTR void VKAPI_CALL remember_properties(VkPhysicalDevice device, VkPhysicalDeviceProperties2* answer) {
  remember(answer);
  get_properties(device, answer);
}
PFN_vkGetPhysicalDeviceFeatures2 get_features = nullptr;
VKAPI_ATTR void VKAPI_CALL remember_features(VkPhysicalDevice device, VkPhysicalDeviceFeatures2* answer) {
  remember(answer);
  get_features(device, answer);
}
VKAPI_ATTR void VKAPI_CALL import_all(VkPhysicalDevice, const VkPhysicalDeviceExternalBufferInfo*,
                                      VkExternalBufferProperties* answer) {
  answer->externalMemoryProperties.externalMemoryFeatures = VK_EXTERNAL_MEMORY_FEATURE_IMPORTABLE_BIT;
}

// Lists and opens a device. `fault`: what the table says of it, maybe beside other rows; null: nothing.
void check_opened(const ReportedDevice& device, const KnownDriver* fault) {
  LimitedVulkan vulkan(device);
  InstanceOptions options = vulkan.options();
  replace(options, options.table.vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR, get_matrices,
          "vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR", count_questions);
  replace(options, options.table.vkGetPhysicalDeviceProperties2, get_properties,
          "vkGetPhysicalDeviceProperties2", remember_properties);
  replace(options, options.table.vkGetPhysicalDeviceFeatures2, get_features, "vkGetPhysicalDeviceFeatures2",
          remember_features);
  options.table.vkGetPhysicalDeviceExternalBufferProperties = import_all;
  questions = 0;
  structures.clear();
  const auto instance = require(Instance::create(options));
  const Capabilities listed = require(instance->choose(""));
  CHECK(questions == 0);
  const std::vector<KnownDriver> faults = known_faults(listed);
  CHECK(faults.empty() == (fault == nullptr));
  const bool is_there = std::ranges::any_of(
      faults, [&](const KnownDriver& each) { return fault && each.text() == fault->text(); });
  CHECK(is_there == (fault != nullptr));
  const DeviceContext context = require(open_device(instance, listed, {}));
  const Capabilities& opened = context.device->capabilities();
  const bool matrices = !takes_away(faults, VK_KHR_COOPERATIVE_MATRIX_EXTENSION_NAME);
  CHECK((questions > 0) == matrices);
  CHECK(context.profile.matrix_shapes.empty() == !matrices);
  CHECK(opened.host_memory_import == !takes_away(faults, VK_EXT_EXTERNAL_MEMORY_HOST_EXTENSION_NAME));
  CHECK(context.profile.dot == !takes_away(faults, VK_KHR_SHADER_INTEGER_DOT_PRODUCT_EXTENSION_NAME));
  // Those of integer dot products are a part of Vulkan 1.3.
  const std::pair<VkStructureType, const char*> asked[] = {
      {VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_COOPERATIVE_MATRIX_FEATURES_KHR,
       VK_KHR_COOPERATIVE_MATRIX_EXTENSION_NAME},
      {VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_COOPERATIVE_MATRIX_2_FEATURES_NV,
       VK_NV_COOPERATIVE_MATRIX_2_EXTENSION_NAME},
      {VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_EXTERNAL_MEMORY_HOST_PROPERTIES_EXT,
       VK_EXT_EXTERNAL_MEMORY_HOST_EXTENSION_NAME},
  };
  for (const auto& pair : asked) {
    CAPTURE(pair.second);
    if (has_extension(device, pair.second))
      CHECK(structures.contains(pair.first) == !takes_away(faults, pair.second));
  }
  uint32_t subgroup = 64;
  std::map<std::string, std::string> left_out; // and the report
  for (const KnownDriver& each : faults) {
    if (each.subgroup_size) subgroup = each.subgroup_size;
    if (each.left_out) left_out[each.left_out] = each.source;
  }
  if (std::ranges::any_of(faults, &KnownDriver::no_exchanges)) subgroup = 0;
  CHECK(context.profile.subgroup == subgroup);
  CHECK(context.profile.blocklist->size() == left_out.size());
  for (const auto& pair : left_out) {
    const std::string variant = pair.first;
    CAPTURE(variant);
    REQUIRE(context.profile.blocklist->contains(variant));
    const std::string reason = context.profile.blocklist->at(variant).reason;
    CHECK(reason.find(pair.second) != std::string::npos);
    CHECK(std::ranges::any_of(kernel_variants(), [&](const VariantSummary& each) {
      return fmt::format("{} {}", each.family, each.name) == variant;
    }));
  }
  CHECK(vulkan.violations() == "");
}

// How many threads make pipelines at the same time, at most; and what the last cache of pipelines began with.
std::atomic<int> makers = 0, most_makers = 0;
size_t given_bytes = 0;
PFN_vkCreateComputePipelines create_pipelines = nullptr;
VKAPI_ATTR VkResult VKAPI_CALL make_slowly(VkDevice device, VkPipelineCache cache, uint32_t count,
                                           const VkComputePipelineCreateInfo* infos,
                                           const VkAllocationCallbacks* callbacks, VkPipeline* pipelines) {
  const int now = ++makers;
  if (now > most_makers) most_makers = now;
  for (int i = 0; i < 40 && makers < 2; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  const VkResult result = create_pipelines(device, cache, count, infos, callbacks, pipelines);
  --makers;
  return result;
}
PFN_vkCreatePipelineCache create_cache = nullptr;
VKAPI_ATTR VkResult VKAPI_CALL make_cache(VkDevice device, const VkPipelineCacheCreateInfo* info,
                                          const VkAllocationCallbacks* callbacks, VkPipelineCache* cache) {
  given_bytes = info->initialDataSize;
  return create_cache(device, info, callbacks, cache);
}
VKAPI_ATTR VkResult VKAPI_CALL cache_data(VkDevice, VkPipelineCache, size_t* size, void* data) {
  *size = 64;
  if (data) std::memset(data, 7, *size);
  return VK_SUCCESS;
}

} // namespace

TEST_CASE("some drivers compile one kernel at a time, and some are not given what they compiled before") {
  struct Compiler {
    const char* name;
    bool alone, anew;
  };
  for (const Compiler& each :
       {Compiler{"PowerVR Rogue GE8320", true, false}, Compiler{"PowerVR BXM-8-256", true, false},
        Compiler{"PowerVR DXT-48-1536", false, true}, Compiler{"PowerVR AXE-1-16M", false, false}}) {
    CAPTURE(each.name);
    ReportedDevice device = capable_device();
    device.name = each.name;
    device.driver = VK_DRIVER_ID_IMAGINATION_PROPRIETARY;
    LimitedVulkan vulkan(device);
    InstanceOptions options = vulkan.options();
    replace(options, options.table.vkCreateComputePipelines, create_pipelines, "vkCreateComputePipelines",
            make_slowly);
    replace(options, options.table.vkCreatePipelineCache, create_cache, "vkCreatePipelineCache", make_cache);
    options.table.vkGetPipelineCacheData = cache_data;
    const TemporaryFolder folder;
    for (const size_t kept : {size_t{0}, size_t{64}}) {
      const auto instance = require(Instance::create(options));
      const DeviceContext context =
          require(open_device(instance, require(instance->choose("")), folder.path()));
      CHECK(given_bytes == (each.anew ? 0 : kept));
      most_makers = 0;
      std::vector<std::thread> threads;
      for (uint32_t width : {32u, 64u})
        threads.emplace_back([&, width] { CHECK(context.pipelines->get("copy", {width}).ok()); });
      for (std::thread& thread : threads) thread.join();
      CHECK(most_makers == (each.alone ? 1 : 2));
      require(context.pipelines->save());
    }
  }
}

TEST_CASE("what the table says of a driver is done before the device is asked, and of no other driver") {
  REQUIRE(!known_drivers().empty());
  check_opened(capable_device(), nullptr);
  for (const KnownDriver& fault : known_drivers()) {
    CAPTURE(fault.source);
    CAPTURE(fault.name);
    check_opened(faulty_device(fault), &fault);
  }
}

TEST_CASE("a bad driver is known by its number and version, and each of them was reported somewhere") {
  for (const KnownDriver& each : known_drivers()) {
    CAPTURE(each.source);
    CHECK(std::string(each.source).starts_with("https://"));
    REQUIRE(each.first < each.fixed);
    Capabilities device;
    device.name = each.name;
    device.type = VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU;
    device.vendor_id = each.vendor;
    device.device_id = each.chips[0];
    device.driver_id = each.driver;
    device.driver_version = each.info;
    const auto is_bad = [&](uint32_t build) {
      device.driver_build = build;
      return each.is(device);
    };
    CHECK(is_bad(each.first));
    CHECK(is_bad(each.fixed - 1));
    if (each.first > 0) CHECK_FALSE(is_bad(each.first - 1));
    if (each.fixed < UINT32_MAX) CHECK_FALSE(is_bad(each.fixed));
    const auto is_bad_with = [&](auto change) {
      Capabilities other = device;
      other.driver_build = each.first;
      change(other);
      return each.is(other);
    };
    CHECK(is_bad_with([](Capabilities& other) { other.type = VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU; }) ==
          !each.integrated_only);
    CHECK(is_bad_with([](Capabilities& other) { other.name = "another"; }) == (*each.name == 0));
    CHECK(is_bad_with([](Capabilities& other) { other.vendor_id = 1; }) == (each.vendor == 0));
    CHECK(is_bad_with([](Capabilities& other) { other.driver_version = "another"; }) == (*each.info == 0));
    CHECK_FALSE(is_bad_with([](Capabilities& other) { other.driver_id = VK_DRIVER_ID_GOOGLE_SWIFTSHADER; }));
  }
}

TEST_CASE("versions are unpacked as their vendors pack them") {
  Capabilities device;
  device.type = VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU;
  device.driver_id = VK_DRIVER_ID_MESA_RADV;
  device.driver_build = VK_MAKE_VERSION(25, 2, 0);
  CHECK(known_faults(device).size() == 1);
  device.driver_build = VK_MAKE_VERSION(26, 0, 5);
  CHECK(known_faults(device).empty());
  device.driver_build = VK_MAKE_VERSION(26, 1, 2);
  CHECK(known_faults(device).size() == 1);
  device.driver_id = VK_DRIVER_ID_INTEL_PROPRIETARY_WINDOWS;
  device.driver_build = 101 << 14 | 8515; // 32.0.101.8515
  CHECK(known_faults(device).size() == 1);
  device.driver_build = 101 << 14 | 8860;
  CHECK(known_faults(device).empty());
  device.driver_id = VK_DRIVER_ID_NVIDIA_PROPRIETARY;
  device.name = "NVIDIA GeForce RTX 5080";
  device.driver_build = 595u << 22 | 58 << 14 | 3 << 6; // 595.58.03
  CHECK(known_faults(device).size() == 1);
  device.driver_build = 596u << 22 | 46 << 14;
  CHECK(known_faults(device).empty());
}
